import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.errors import ConfigError
from apm_lab.maths.mapping import Gaussian, SignedPermutation, check_mapping, draw_mappings
from apm_lab.maths.seeding import stream
from apm_lab.maths.symmetry import asymmetry


class Own:
    def __init__(self, draw):
        self.draw = draw

    def sample(self, rng, M, N):
        return self.draw(rng, M, N)


def rng(name="test"):
    return stream(0, name)


@given(N=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_signed_permutation_has_one_sign_per_row_and_column(N, seed):
    C = SignedPermutation().sample(np.random.default_rng(seed), N, N)
    assert set(np.unique(C)) <= {-1.0, 0.0, 1.0}
    assert (np.abs(C).sum(0) == 1).all()
    assert (np.abs(C).sum(1) == 1).all()
    assert np.array_equal(C @ C.T, np.eye(N))


@given(M=st.integers(1, 8), data=st.data())
def test_fewer_attributes_than_principles_get_an_injection(M, data):
    N = data.draw(st.integers(1, M))
    C = SignedPermutation().sample(rng(str((M, N))), M, N)
    assert (np.abs(C).sum(0) == 1).all()
    assert (np.abs(C).sum(1) <= 1).all()


def how_many(M, N):
    """Return the number of signed injections of N attributes into M principles."""
    return math.perm(M, N) * 2**N


@pytest.mark.parametrize(("M", "N"), [(1, 1), (2, 2), (3, 2), (3, 3)])
def test_all_signed_permutations_are_met_equally_often(M, N):
    expected = 100
    drawn = [SignedPermutation().sample(r, M, N).tobytes() for r in [rng()] for _ in range(expected * how_many(M, N))]
    counts = np.unique(np.array(drawn), return_counts=True)[1]
    assert len(counts) == how_many(M, N)
    # chi-square: its mean is the number of degrees of freedom, its variance twice that
    freedom = len(counts) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 4 * math.sqrt(2 * freedom)


def test_there_are_3_715_891_200_signed_permutations_of_ten():
    # too many to meet: a draw of ten is one of 10! orders times one of 2^10 sign patterns, each of its own accord
    assert how_many(10, 10) == 3_715_891_200
    drawn = np.stack([SignedPermutation().sample(r, 10, 10) for r in [rng("ten")] for _ in range(4000)])
    order, signs = np.abs(drawn).argmax(1), drawn.sum(1)
    assert len(np.unique(order, axis=0)) > 3980  # 4000^2 / (2 * 10!) = 2.2 pairs alike are expected
    assert len(np.unique(signs, axis=0)) > 950  # 1024 (1 - exp(-4000 / 1024)) = 1003 are expected
    together = np.abs(((order == 0)[:, :, None] * signs[:, None, :]).mean(0))
    assert together.max() < 4.5 * math.sqrt(0.1 / 4000)  # where an attribute goes tells no sign


@pytest.mark.parametrize(("kind", "variance"), [(SignedPermutation(), 1 / 10), (Gaussian(), 1.0)])
def test_moments_of_the_built_in_kinds(kind, variance):
    C = draw_mappings(kind, "independent", 4000, 10, 10, 3).matrices
    assert abs(C.mean()) < 4 * math.sqrt(variance / C.size)
    assert np.abs(C.mean(0)).max() < 4.5 * math.sqrt(variance / 4000)
    assert C.var() == pytest.approx(variance, rel=0.02)


def test_more_attributes_than_principles_names_both():
    with pytest.raises(ConfigError, match=r"pool\.attributes=5 \(N\).*pool\.principles=4 \(M\).*mapping=gaussian"):
        SignedPermutation().sample(rng(), 4, 5)
    assert Gaussian().sample(rng(), 4, 5).shape == (4, 5)


@pytest.mark.parametrize(
    ("kind", "design"),
    [
        (SignedPermutation(), "independent"),
        (SignedPermutation(), "antithetic"),
        (SignedPermutation(), "latin"),
        (Gaussian(), "independent"),
        (Gaussian(), "antithetic"),
    ],
)
def test_a_draw_stays_when_more_are_asked_for(kind, design):
    few, many = (draw_mappings(kind, design, draws, 4, 3, 7) for draws in (16, 32))
    assert (few.matrices == many.matrices[:16]).all()
    assert (few.blocks == many.blocks[:16]).all()
    assert not (many.matrices[16:] == few.matrices).all()
    assert not (draw_mappings(kind, design, 16, 4, 3, 8).matrices == few.matrices).all()


def test_blocks_of_the_designs():
    assert draw_mappings(Gaussian(), "independent", 4, 2, 2, 0).blocks.tolist() == [0, 1, 2, 3]
    assert draw_mappings(Gaussian(), "antithetic", 4, 2, 2, 0).blocks.tolist() == [0, 0, 1, 1]
    assert draw_mappings(SignedPermutation(), "latin", 8, 2, 2, 0).blocks.tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("kind", [SignedPermutation(), Gaussian()])
def test_antithetic_pairs_are_negatives_side_by_side(kind):
    C = draw_mappings(kind, "antithetic", 6, 5, 4, 1).matrices
    assert (C[::2] == -C[1::2]).all()
    assert not np.signbit(C[C == 0]).any()
    assert not (C[0] == C[2]).all()


@pytest.mark.parametrize(("M", "N"), [(5, 5), (6, 4), (1, 1)])
def test_latin_block_meets_every_pair_once_with_each_sign(M, N):
    mappings = draw_mappings(SignedPermutation(), "latin", 4 * M, M, N, 2)
    for block in (0, 1):
        C = mappings.matrices[mappings.blocks == block]
        assert len(C) == 2 * M
        assert ((C == 1).sum(0) == 1).all()
        assert ((C == -1).sum(0) == 1).all()
        assert (C.mean(0) == 0).all()
        assert (np.abs(C).sum(1) == 1).all()
        assert (np.abs(C).sum(2) <= 1).all()


def test_single_latin_draws_are_uniform_signed_permutations():
    C = np.stack([draw_mappings(SignedPermutation(), "latin", 6, 3, 3, seed).matrices[2] for seed in range(2400)])
    counts = np.unique(C.reshape(2400, 9), axis=0, return_counts=True)[1]
    assert len(counts) == 48
    assert ((counts - 50) ** 2 / 50).sum() < 47 + 4 * 9.7


def test_signs_of_latin_shifts_are_independent():
    draws = [draw_mappings(SignedPermutation(), "latin", 6, 3, 3, seed).matrices for seed in range(400)]
    signs = np.stack([C[::2].sum(1) for C in draws])  # (seed, shift, attribute)
    for other in (1, 2):
        assert np.abs((signs[:, 0] * signs[:, other]).mean(0)).max() < 4.5 / np.sqrt(400)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Gaussian(), "lattin", 4, 2, 2), r"mapping\.design=lattin.*did you mean latin\?"),
        ((Gaussian(), "latin", 4, 2, 2), r"mapping\.design=latin.*Gaussian.*expected mapping=signed_permutation"),
        ((Gaussian(), "antithetic", 5, 2, 2), r"mapping\.draws=5.*multiple of 2; nearest: 4 or 6"),
        ((SignedPermutation(), "latin", 10, 6, 6), r"mapping\.draws=10.*multiple of 12; nearest: 12"),
        ((SignedPermutation(), "latin", 16, 3, 4), r"pool\.attributes=4"),
        ((Gaussian(), "independent", 0, 2, 2), r"mapping\.draws=0.*at least 1"),
        ((Gaussian(), "independent", 1, 0, 2), r"pool\.principles=0"),
        ((Gaussian(), "independent", 1, 2, 0), r"pool\.attributes=0"),
    ],
)
def test_bad_requests_are_refused_by_name(arguments, message):
    with pytest.raises(ConfigError, match=message):
        draw_mappings(*arguments, seed=0)


def test_a_signed_permutation_of_the_users_own_cannot_be_shifted():
    class Mine(SignedPermutation):
        def sample(self, rng, M, N):
            return np.abs(super().sample(rng, M, N))

    with pytest.raises(ConfigError, match="Mine"):
        draw_mappings(Mine(), "latin", 4, 2, 2, 0)
    with pytest.raises(ConfigError, match="Mine"):
        check_mapping(Mine(), 2, 2, rng())


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda r, M, N: np.ones((N, M)), r"shape \(3, 4\), expected \(M, N\) = \(4, 3\)"),
        (lambda r, M, N: np.full((M, N), np.nan), r"principle 0, attribute 0\) is nan"),
        (lambda r, M, N: "C", "isn't an array of numbers"),
        (lambda r, M, N: [[1, 2], [3]], "isn't an array of numbers"),
    ],
)
def test_draws_that_are_no_matrix_are_refused(draw, message):
    with pytest.raises(ConfigError, match=message):
        check_mapping(Own(draw), 4, 3, rng())
    with pytest.raises(ConfigError, match=message):
        draw_mappings(Own(draw), "independent", 1, 4, 3, 0)


def one_biased_entry(r, M, N):
    C = r.standard_normal((M, N))
    C[2, 1] = abs(C[2, 1])
    return C


def symmetric_entries_but_not_jointly(r, M, N):
    """Every entry is a fair sign, but row 2 is the product of rows 0 and 1: each C a has a skewed joint law."""
    C = np.where(r.random((M, N)) < 0.5, -1.0, 1.0)
    C[2] = C[0] * C[1]
    return C


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda r, M, N: r.normal(0.15, 1, (M, N)),
            r"E\[C\] isn't 0: entry \(principle \d, attribute \d\) has mean 0\.1",
        ),
        (one_biased_entry, r"E\[C\] isn't 0: entry \(principle 2, attribute 1\) has mean 0\.[78]"),
        (lambda r, M, N: np.ones((M, N)), r"has mean 1 over 4000 draws, expected 0"),
        (lambda r, M, N: r.exponential(size=(M, N)) - 1, "C a and -C a are distributed differently.*mean sign"),
        (symmetric_entries_but_not_jointly, "C a and -C a are distributed differently"),
    ],
)
def test_mappings_that_break_a_premise_are_refused(draw, message):
    with pytest.raises(ConfigError, match=message):
        check_mapping(Own(draw), 5, 4, rng())


SYMMETRIC = {
    "heavy tails": lambda r, M, N: r.standard_cauchy((M, N)),
    "rare entries": lambda r, M, N: (r.random((M, N)) < 0.01) * np.where(r.random((M, N)) < 0.5, -1, 1),
    "one sign for all": lambda r, M, N: (1 if r.random() < 0.5 else -1) * r.lognormal(size=(M, N)),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_mappings_of_the_users_own_pass(name):
    check_mapping(Own(SYMMETRIC[name]), 5, 4, rng(name))


def test_false_refusals_are_rare():
    # the bound is 5e-4; with 60 checks even one refusal would be surprising (3 %)
    streams = [rng(f"heavy {i}") for i in range(60)]
    faults = [asymmetry(partial(SYMMETRIC["heavy tails"], r, 3, 2), r, 400) for r in streams]
    assert faults == [None] * 60


def test_built_in_kinds_are_not_sampled_but_held_to_their_sizes():
    check_mapping(SignedPermutation(), 3, 3, rng(), samples=1)
    with pytest.raises(ConfigError, match=r"pool\.attributes=4"):
        check_mapping(SignedPermutation(), 3, 4, rng())
    with pytest.raises(ConfigError, match="samples=99"):
        check_mapping(Own(next(iter(SYMMETRIC.values()))), 3, 4, rng(), samples=99)


class Unseeded:
    def sample(self, rng, M, N):
        return np.random.standard_normal((M, N))


class Nothing:
    def sample(self, rng, M, N):
        return np.zeros((M, N))


@pytest.mark.parametrize(
    ("kind", "message"), [(Unseeded(), "take every number from `rng`"), (Nothing(), "every draw is all zeros")]
)
def test_a_kind_that_is_not_random_by_its_generator_is_refused(kind, message):
    with pytest.raises(ConfigError, match=message):
        check_mapping(kind, 3, 3, np.random.default_rng(0))
