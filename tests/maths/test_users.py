import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.errors import ConfigError
from apm_lab.maths.mapping import Gaussian, draw_mappings
from apm_lab.maths.preference import preferences
from apm_lab.maths.users import balanced_attributes, iid_attributes

BOTH = pytest.mark.parametrize("make", [balanced_attributes, iid_attributes])


@st.composite
def sizes(draw):
    N = draw(st.integers(1, 9))
    return N, draw(st.integers(1, N)), draw(st.integers(0, 10**6))


@BOTH
@given(sizes=sizes(), U=st.integers(0, 60))
def test_exactly_k_signs_a_user(make, sizes, U):
    N, k, seed = sizes
    a = make(U, N, k, seed, "train")
    assert a.shape == (U, N)
    assert a.dtype == np.int8
    assert set(np.unique(a)) <= {-1, 0, 1}
    assert (np.abs(a).sum(1) == k).all()


@BOTH
@given(sizes=sizes(), few=st.integers(0, 40), more=st.integers(0, 40))
def test_fewer_users_are_the_beginning_of_more(make, sizes, few, more):
    N, k, seed = sizes
    assert (make(few + more, N, k, seed, "test")[:few] == make(few, N, k, seed, "test")).all()


@given(sizes=sizes(), blocks=st.integers(1, 3))
def test_blocks_balance_attributes_and_signs(sizes, blocks):
    N, k, seed = sizes
    for block in np.split(balanced_attributes(2 * N * blocks, N, k, seed, "test"), blocks):
        assert ((block == 1).sum(0) == k).all()
        assert ((block == -1).sum(0) == k).all()


def test_one_active_attribute_meets_each_sign_once_a_block():
    block = balanced_attributes(12, 6, 1, 5, "test")
    assert {(int(i), int(block[u, i])) for u, i in np.argwhere(block)} == {(i, s) for i in range(6) for s in (-1, 1)}


@pytest.mark.parametrize("normalise", ["l2", "none", "l1"])
def test_preferences_of_a_block_sum_to_zero_under_any_mapping(normalise):
    C = draw_mappings(Gaussian(), "independent", 3, 5, 6, 0).matrices
    p = preferences(C, balanced_attributes(12, 6, 3, 1, "test"), normalise)
    assert np.abs(p.sum(1)).max() < 1e-12


@BOTH
def test_splits_seeds_and_blocks_differ(make):
    a = make(40, 10, 2, 0, "train")
    assert not (a == make(40, 10, 2, 0, "test")).all()
    assert not (a == make(40, 10, 2, 1, "train")).all()
    assert not (a[:20] == a[20:]).all()


def test_row_order_carries_nothing():
    # in each place of the block, every (attribute, sign) of 3 turns up: 6 kinds, 600 blocks, 100 expected
    a = np.stack([balanced_attributes(6, 3, 1, seed, "test") for seed in range(600)])
    counts = np.concatenate([(a == 1).sum(0), (a == -1).sum(0)], axis=1)
    assert np.abs(counts - 100).max() < 4.5 * np.sqrt(600 / 6 * 5 / 6)


def test_users_of_a_block_are_shuffled():
    # the other user with the first one's attribute stands in each of the five other places equally often
    a = np.stack([balanced_attributes(6, 3, 1, seed, "test") for seed in range(500)])
    place = (a[:, :1] == -a).all(2).argmax(1)
    counts = np.bincount(place, minlength=6)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 100).max() < 4.5 * np.sqrt(500 / 5 * 4 / 5)


def test_every_set_of_attributes_is_met():
    # 2000 users, 10 triples of 5 attributes: 200 expected, met in blocks, so twice the binomial spread is allowed
    active = balanced_attributes(2000, 5, 3, 0, "test") != 0
    sets, counts = np.unique(active, axis=0, return_counts=True)
    assert len(sets) == 10
    assert np.abs(counts - 200).max() < 4 * 2 * np.sqrt(200)


def test_iid_users_are_uniform_and_not_balanced():
    a = iid_attributes(6000, 5, 2, 0, "test")
    for sign in (-1, 1):
        counts = (a == sign).sum(0)
        assert np.abs(counts - 1200).max() < 4.5 * np.sqrt(6000 * 0.2 * 0.8)
        assert (counts != 1200).any()


@BOTH
@pytest.mark.parametrize(
    ("U", "N", "k", "message"),
    [
        (10, 6, 0, r"users\.active=0 \(k\): expected 1 to 6"),
        (10, 6, 7, r"users\.active=7 \(k\): expected 1 to 6"),
        (10, 0, 1, r"pool\.attributes=0"),
        (-1, 6, 1, "number of users -1"),
    ],
)
def test_impossible_users_are_refused(make, U, N, k, message):
    with pytest.raises(ConfigError, match=message):
        make(U, N, k, 0, "train")
