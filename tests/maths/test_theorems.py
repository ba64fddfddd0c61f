"""APM Theorems 1 and 2, on the sample of draws itself: exact over an antithetic pair and over a Latin block."""

import itertools

import numpy as np
import pytest

from apm_lab.maths.inference import control_check, mean_interval
from apm_lab.maths.mapping import Gaussian, SignedPermutation, draw_mappings
from apm_lab.maths.outcomes import differences, outcome
from apm_lab.maths.preference import preferences
from apm_lab.maths.users import balanced_attributes, iid_attributes

U, N = 50, 6
RNG = np.random.default_rng(0)
BIASED = RNG.integers(1, 11, (U, N)) * np.array([1, 1, 1, 0.2, 0.1, 0]) + 3.7  # a judge with favourites
DESIGNS = [
    (SignedPermutation(), "antithetic", 10),
    (Gaussian(), "antithetic", 10),
    (SignedPermutation(), "latin", 24),
]


def blind_differences(kind, design, draws, k, normalise="l2"):
    """Return the differences (D, U) of one blind policy's stored responses from another's, under every draw."""
    mappings = draw_mappings(kind, design, draws, N, N, 1)
    other = np.random.default_rng(1).integers(1, 11, (U, N)).astype(float)
    known = np.ones((U, N), dtype=bool)
    p = preferences(mappings.matrices, iid_attributes(U, N, k, 2, "test"), normalise)
    values = np.stack([differences(q, BIASED, known, other, known)[0] for q in p])
    return values, np.ones(values.shape, dtype=bool), mappings.blocks


@pytest.mark.parametrize(("kind", "design", "draws"), DESIGNS)
@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("normalise", ["l2", "none", "l1"])
def test_theorem_1_a_blind_policy_earns_nothing_in_any_block(kind, design, draws, k, normalise):
    mappings = draw_mappings(kind, design, draws, N, N, 5)
    p = preferences(mappings.matrices, iid_attributes(U, N, k, 3, "test"), normalise)
    rewards = (p * BIASED).sum(2)  # (D, U): p . J(y0)
    assert np.abs(rewards).max() > 1
    for block in np.unique(mappings.blocks):
        assert np.abs(rewards[mappings.blocks == block].mean(0)).max() < 1e-13  # for every single user


@pytest.mark.parametrize(("kind", "design", "draws"), DESIGNS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_theorem_2_wins_equal_losses_in_any_block(kind, design, draws, k):
    values, known, blocks = blind_differences(kind, design, draws, k)
    for block in np.unique(blocks):
        figures = outcome(values[blocks == block].ravel(), known[blocks == block].ravel())
        assert figures.wins / figures.n == 0.5 * (1 - figures.ties / figures.n)
        assert figures.win_rate == 0.5
        assert figures.wl == 1


def test_theorem_2_over_all_signed_permutations_with_ties():
    # every one of the 3! 2^3 mappings, integer scores with ties: P(W) = (1 - P(tie)) / 2 exactly
    matrices = np.stack(
        [
            np.eye(3)[list(order)] * np.array(signs)
            for order in itertools.permutations(range(3))
            for signs in itertools.product([-1, 1], repeat=3)
        ]
    )
    a, b, known = np.array([[7, 4, 5]]), np.array([[5, 4, 7]]), np.ones((1, 3), dtype=bool)
    for attributes in ([1, 0, 0], [1, -1, 0], [-1, 1, 1]):
        p = preferences(matrices, [attributes])
        values = np.concatenate([differences(q, a, known, b, known)[0] for q in p])
        figures = outcome(values, np.ones(48, dtype=bool))
        assert figures.ties > 0
        assert figures.wins == figures.losses == (48 - figures.ties) / 2


@pytest.mark.parametrize(("kind", "design", "draws"), DESIGNS)
def test_a_blind_control_passes_and_is_not_significant_by_rounding(kind, design, draws):
    values, known, blocks = blind_differences(kind, design, draws, 2)
    interval = mean_interval(values, known, blocks)
    assert abs(interval.estimate) < 1e-14
    assert not interval.excludes(0.0)
    assert control_check(values, known, blocks).passed


def test_balanced_users_earn_a_constant_response_nothing():
    p = preferences(
        draw_mappings(Gaussian(), "independent", 1, N, N, 0).matrices, balanced_attributes(24, N, 2, 0, "test")
    )
    assert abs((p[0] * BIASED[0]).sum()) < 1e-12
