"""The five distances: hand-worked numbers (CHECKS 4), scipy's, and what is degenerate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import correlation, jensenshannon
from scipy.stats import wasserstein_distance

from apm_lab.errors import ConfigError
from apm_lab.maths.distance import DISTANCES, constant_choices, distance, largest_distance, rank_positions

P, Q = np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.array([0.3, 0.3, 0.2, 0.1, 0.1])


def real(*counts, most=None):
    width = most or max(counts)
    return np.arange(width) < np.array(counts)[:, None]


def aligned(name, p, q, positions=None):
    mask = real(len(p))
    at = None if positions is None else np.array([positions], dtype=float)
    return float((1 - distance(name, [p], [q], mask, at) / largest_distance(name, mask, at))[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wasserstein", 0.850),
        ("jensen_shannon", 0.714),
        ("total_variation", 0.700),
        ("euclidean", 0.776),
        ("correlation", 0.293),
    ],
)
def test_the_worked_case(name, expected):
    assert aligned(name, P, Q) == pytest.approx(expected, abs=5e-4)


def test_the_worked_wasserstein_distance():
    assert distance("wasserstein", [P], [Q], real(5))[0] == pytest.approx(0.6)


@pytest.mark.parametrize("name", DISTANCES)
def test_a_distribution_agrees_with_itself(name):
    assert aligned(name, P, P) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["wasserstein", "euclidean", "jensen_shannon", "total_variation"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_one_hot_ends_are_as_far_apart_as_can_be(name, count):
    ends = np.eye(count)
    assert aligned(name, ends[0], ends[-1]) == pytest.approx(0.0)


@pytest.mark.parametrize(("count", "expected"), [(2, 1.0), (3, 0.866), (4, 0.816), (5, 0.791)])
def test_correlation_distance_of_one_hot_ends_is_not_its_largest(count, expected):
    ends = np.eye(count)
    assert distance("correlation", ends[:1], ends[-1:], real(count))[0] == pytest.approx(expected, abs=5e-4)
    assert distance("correlation", [[0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0]], real(3))[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("count", "expected"), [(2, 0.442), (4, 0.259)])
def test_jensen_shannon_of_one_hot_and_uniform(count, expected):
    assert aligned("jensen_shannon", np.eye(count)[0], np.full(count, 1 / count)) == pytest.approx(expected, abs=5e-4)


def test_with_two_choices_three_distances_are_one():
    p, q = [[0.3, 0.7]], [[0.55, 0.45]]
    half = distance("total_variation", p, q, real(2))[0]
    assert distance("wasserstein", p, q, real(2))[0] == pytest.approx(half)
    assert distance("euclidean", p, q, real(2))[0] == pytest.approx(np.sqrt(2) * half)


def test_a_constant_distribution_has_correlation_zero():
    uniform = np.full((1, 4), 0.25)
    assert distance("correlation", uniform, [[0.7, 0.1, 0.1, 0.1]], real(4))[0] == pytest.approx(np.sqrt(0.5))
    assert constant_choices(uniform, real(4)).tolist() == [True]
    assert constant_choices([[0.7, 0.1, 0.1, 0.1]], real(4)).tolist() == [False]


def test_euclidean_and_correlation_agree_as_eq_16_says_for_standardised_vectors_only():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    a, b = ((v - v.mean()) / v.std() for v in (a, b))
    ratio = distance("correlation", [a], [b], real(9))[0] / distance("euclidean", [a], [b], real(9))[0]
    assert ratio == pytest.approx(1 / (2 * np.sqrt(9)))
    ends = np.eye(3)
    mask = real(3)
    off = distance("correlation", ends[:1], ends[1:2], mask)[0] / distance("euclidean", ends[:1], ends[1:2], mask)[0]
    assert off == pytest.approx(0.612, abs=5e-4)


@st.composite
def pairs(draw):
    count = draw(st.integers(2, 6))
    weights = st.lists(st.integers(0, 5), min_size=count, max_size=count).filter(any)
    p, q = (np.array(draw(weights), dtype=float) for _ in range(2))
    positions = draw(st.permutations(range(count)))
    return p / p.sum(), q / q.sum(), np.array(positions, dtype=float)


@given(pairs())
def test_distances_equal_those_of_scipy(case):
    p, q, positions = case
    padded = [np.concatenate([part, [0.0, 0.0]])[None] for part in (p, q)]  # a question with fewer choices than others
    mask = real(len(p), most=len(p) + 2)
    at = np.concatenate([positions, [0.0, 0.0]])[None]
    found = {name: distance(name, *padded, mask, at if name == "wasserstein" else None)[0] for name in DISTANCES}
    assert found["jensen_shannon"] == pytest.approx(jensenshannon(p, q, base=2), abs=1e-7)
    assert found["jensen_shannon"] ** 2 == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert found["wasserstein"] == pytest.approx(wasserstein_distance(positions, positions, p, q), abs=1e-12)
    assert found["euclidean"] == pytest.approx(np.linalg.norm(p - q), abs=1e-12)
    assert found["total_variation"] == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-12)
    if np.ptp(p) > 0 and np.ptp(q) > 0:
        assert found["correlation"] ** 2 == pytest.approx(correlation(p, q) / 2, abs=1e-12)


def test_models_against_groups_broadcast():
    rng = np.random.default_rng(1)
    models, groups = rng.dirichlet(np.ones(4), size=(3, 1, 6)), rng.dirichlet(np.ones(4), size=(5, 6))
    for name in DISTANCES:
        found = distance(name, models, groups, real(*[4] * 6))
        assert found.shape == (3, 5, 6)
        one = distance(name, models[2, 0], groups[4], real(*[4] * 6))
        assert np.allclose(found[2, 4], one, atol=1e-12)


def test_positions_are_ranks_or_the_surveys_own():
    mask = real(3, 2, most=4)
    assert rank_positions(mask).tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert largest_distance("wasserstein", mask).tolist() == [2, 1]
    own = np.array([[1.0, 2.0, 10.0, 0.0], [5.0, 5.0, 0.0, 0.0]])
    assert largest_distance("wasserstein", mask, own).tolist() == [9, 0]  # equal ordinals: nothing to tell apart
    moved = distance("wasserstein", [[0, 1, 0, 0], [1, 0, 0, 0]], [[0, 0, 1, 0], [0, 1, 0, 0]], mask, own)
    assert moved.tolist() == [8, 0]


def test_a_question_of_one_choice_has_no_largest_distance():
    for name in DISTANCES:
        assert largest_distance(name, real(1, 2)).tolist()[0] == 0
        assert np.isfinite(distance(name, [[1.0, 0.0]], [[1.0, 0.0]], real(1, most=2))).all()


def test_an_unknown_name_is_told():
    with pytest.raises(ConfigError, match=r"distance=wassertein: no such distance; did you mean wasserstein"):
        distance("wassertein", [P], [Q], real(5))
