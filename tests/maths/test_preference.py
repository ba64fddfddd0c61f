import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.errors import ConfigError
from apm_lab.maths.mapping import Gaussian, SignedPermutation, draw_mappings
from apm_lab.maths.preference import MIDPOINT, preferences, ratings, weighed_sum
from apm_lab.maths.users import iid_attributes

C = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=float)


def test_preferences_by_hand():
    p = preferences(C, [[0, 1, 0], [1, 0, -1], [0, 0, 0]], "none")
    assert p.shape == (1, 3, 3)
    assert p[0].tolist() == [[-1, 0, 0], [0, 1, -1], [0, 0, 0]]


@pytest.mark.parametrize(("normalise", "size"), [("none", 1.0), ("l1", 0.5), ("l2", 1 / np.sqrt(2))])
def test_k_rule_with_a_permutation(normalise, size):
    mapping = draw_mappings(SignedPermutation(), "independent", 4, 10, 10, 0).matrices
    one = preferences(mapping, iid_attributes(50, 10, 1, 0, "test"), normalise)
    assert one.shape == (4, 50, 10)
    assert (np.count_nonzero(one, axis=2) == 1).all()
    assert (np.abs(one).max(2) == 1).all()
    two = np.abs(preferences(mapping, iid_attributes(50, 10, 2, 0, "test"), normalise))
    assert (np.count_nonzero(two, axis=2) == 2).all()
    assert two[two > 0] == pytest.approx(size, rel=1e-15)
    assert len(np.unique(two[two > 0])) == 1  # an exact tie of the argmax


@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), order=st.sampled_from([1, 2]))
def test_normalised_vectors_have_length_one_and_keep_their_direction(seed, k, order):
    mapping = draw_mappings(Gaussian(), "independent", 2, 5, 4, seed).matrices
    a = iid_attributes(6, 4, k, seed, "test")
    plain, unit = preferences(mapping, a, "none"), preferences(mapping, a, f"l{order}")
    norm = np.linalg.norm(unit, ord=order, axis=2)
    assert norm == pytest.approx(1, rel=1e-12)
    assert unit * np.linalg.norm(plain, ord=order, axis=2, keepdims=True) == pytest.approx(plain, rel=1e-12)


def test_terms_that_cancel_leave_exactly_zero():
    # .1 + .2 - .3 is 5.6e-17 in floats: the user has no preference, and must not get a normalised one
    p = preferences([[0.1, 0.2, 0.3], [0.1, 0.2, 0.4]], [[1, 1, -1]], "l2")
    assert p[0, 0].tolist() == [0, -1]
    assert preferences([[0.1, 0.2, 0.3]], [[1, 1, -1]], "l2")[0, 0].tolist() == [0]


def test_rating_by_hand():
    known = np.ones((2, 1, 3), dtype=bool)
    rho, complete = ratings([[0, -1, 0], [0.6, 0.8, 0]], [[[3, 8, 9]], [[9, 2, 5]]], known)
    assert complete.all()
    assert rho[0, 0] == 3  # 11 - 8
    assert rho[1, 0] == pytest.approx(5.5 + 0.6 * 3.5 - 0.8 * 3.5)  # 4.8


@given(scores=st.lists(st.integers(1, 10), min_size=3, max_size=3), j=st.integers(0, 2), sign=st.sampled_from([-1, 1]))
def test_with_one_principle_a_rating_is_the_score_or_its_reflection(scores, j, sign):
    p = np.zeros((1, 3))
    p[0, j] = sign
    rho, _ = ratings(p, [scores], np.ones((1, 3), dtype=bool))
    assert rho[0] == (scores[j] if sign > 0 else 11 - scores[j])


def test_ratings_at_two_active_attributes_may_leave_the_scale_but_keep_the_midpoint():
    p = np.full((3, 2), 1 / np.sqrt(2))
    rho, _ = ratings(p, [[1, 1], [10, 10], [5.5, 5.5]], np.ones((3, 2), dtype=bool))
    assert rho == pytest.approx([-0.86, 11.86, MIDPOINT], abs=0.005)


def test_sign_balanced_score_has_expectation_at_the_midpoint():
    # 11 - s with probability 1/2: the mean rating over p and -p is 5.5 for any scores
    scores = np.random.default_rng(0).integers(1, 11, (40, 10)).astype(float)
    p = np.random.default_rng(1).standard_normal((40, 10))
    known = np.ones((40, 10), dtype=bool)
    assert (ratings(p, scores, known)[0] + ratings(-p, scores, known)[0]) / 2 == pytest.approx(5.5, abs=1e-12)


def test_only_weighed_entries_must_be_known():
    scores = np.array([[[np.nan, 8.0], [4.0, np.nan]]])
    rho, complete = ratings([[0.0, 1.0]], scores, np.isfinite(scores))
    assert complete.tolist() == [[True, False]]
    assert rho[0, 0] == 8
    assert np.isnan(rho[0, 1])
    # what stands in an unknown entry has no part, whatever it is
    rho, complete = ratings([[1.0, 1.0]], [[[99.0, 8.0]]], np.array([[[False, True]]]))
    assert not complete.any()
    assert np.isnan(rho).all()


def test_a_user_without_preferences_rates_everything_at_the_midpoint():
    rho, complete = ratings([[0.0, 0.0]], [[3.0, 4.0]], np.zeros((1, 2), dtype=bool))
    assert complete.all()
    assert rho.tolist() == [5.5]


def test_candidate_axes_are_kept():
    rho, complete = ratings(np.ones((4, 3)), np.ones((4, 2, 6, 3)), np.ones((4, 2, 6, 3), dtype=bool))
    assert rho.shape == complete.shape == (4, 2, 6)
    assert (rho == 5.5 - 3 * 4.5).all()


def test_wrong_shapes_and_names_are_refused():
    with pytest.raises(ConfigError, match=r"mapping\.normalise=non.*did you mean none"):
        preferences(C, [[1, 0, 0]], "non")
    with pytest.raises(ValueError, match=r"C \(1, 3, 3\) and a \(1, 2\)"):
        preferences(C, [[1, 0]])
    with pytest.raises(ValueError, match=r"p \(1, 2\), scores \(1, 3\)"):
        weighed_sum([[1, 0]], [[1, 2, 3]], np.ones((1, 3), dtype=bool))
    with pytest.raises(ValueError, match="expected bool"):
        weighed_sum([[1, 0]], [[1, 2]], [[1, 1]])
