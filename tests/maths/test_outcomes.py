import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apm_lab.maths.outcomes import DrawOutcome, differences, outcome


def known(x):
    return np.ones(np.shape(x), dtype=bool)


def pair(seed, U=60, M=10, k=1):
    """Return preferences with k entries +-1/sqrt(k), and integer scores of two responses."""
    rng = np.random.default_rng(seed)
    p = np.zeros((U, M))
    for row in p:
        row[rng.permutation(M)[:k]] = rng.choice([-1, 1], k) / np.sqrt(k)
    return p, rng.integers(1, 11, (U, M)).astype(float), rng.integers(1, 11, (U, M)).astype(float)


def test_difference_by_hand():
    d, complete = differences([[0.6, -0.8]], [[9, 4]], known([[1, 1]]), [[4, 6]], known([[1, 1]]))
    assert complete.all()
    assert d == pytest.approx([0.6 * 5 + 0.8 * 2])


def test_unweighed_entries_may_be_unknown_on_either_side():
    nan = np.nan
    a, b = np.array([[7, nan], [7, nan], [nan, 3]]), np.array([[5, 1], [nan, 1], [5, 1]])
    d, complete = differences([[1, 0]] * 3, a, np.isfinite(a), b, np.isfinite(b))
    assert complete.tolist() == [True, False, False]
    assert d[0] == 2
    assert np.isnan(d[1:]).all()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_exact_ties_are_kept(k):
    p, a, b = pair(0, U=20_000, k=k)
    exact = (np.sign(p) * (a - b)).sum(1) == 0
    d, _ = differences(p, a, known(a), b, known(b))
    assert exact.mean() > 0.03
    assert ((d == 0) == exact).all()
    if k > 2:  # one tie in some does need the tolerance
        assert ((p * (a - b)).sum(1)[exact] != 0).any()


def test_comparing_two_rewards_would_break_three_ties_in_ten():
    p, a, b = pair(0, U=20_000, k=2)
    exact = (np.sign(p) * (a - b)).sum(1) == 0
    broken = (p[exact] * a[exact]).sum(1) != (p[exact] * b[exact]).sum(1)
    assert 0.2 < broken.mean() < 0.45


@given(seed=st.integers(0, 10**6), k=st.integers(1, 10))
def test_an_affine_judge_changes_no_delta(seed, k):
    p, a, b = pair(seed, k=k)
    shift = np.random.default_rng(seed).normal(0, 5, 10)
    d, _ = differences(p, a, known(a), b, known(b))
    shifted, _ = differences(p, a + shift, known(a), b + shift, known(b))
    assert shifted == pytest.approx(d, abs=1e-9)
    plain, moved = outcome(d, known(d)), outcome(shifted, known(d))
    assert moved.delta == pytest.approx(plain.delta, abs=1e-9)
    assert (moved.wins, moved.losses, moved.ties) == (plain.wins, plain.losses, plain.ties)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 10))
def test_win_loss_does_not_depend_on_the_length_of_p(seed, k):
    p, a, b = pair(seed, k=k)
    scale = np.random.default_rng(seed).uniform(0.1, 10, (60, 1))
    plain, scaled = (outcome(*differences(q, a, known(a), b, known(b))) for q in (p, p * scale))
    assert (scaled.wins, scaled.losses, scaled.ties) == (plain.wins, plain.losses, plain.ties)


def test_outcome_by_hand():
    figures = outcome([2, -1, 0, 3, np.nan, 1e-12], [True, True, True, True, False, True])
    assert (figures.n, figures.n_missing, figures.wins, figures.losses, figures.ties) == (5, 1, 2, 1, 2)
    assert figures.delta == pytest.approx(0.8)
    assert figures.wl == 2
    assert figures.log_wl == pytest.approx(math.log(2))
    assert figures.win_rate == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("values", "wl", "log", "rate"),
    [([1, 2], math.inf, math.inf, 1), ([-1], 0, -math.inf, 0), ([0, 0], math.nan, math.nan, 0.5)],
)
def test_extremes_are_shown(values, wl, log, rate):
    figures = outcome(values, known(values))
    assert [figures.wl, figures.log_wl, figures.win_rate] == pytest.approx([wl, log, rate], nan_ok=True)


def test_nothing_known_is_no_number():
    figures = outcome([1.0, 2.0], [False, False])
    assert (figures.n, figures.n_missing) == (0, 2)
    assert all(math.isnan(x) for x in (figures.delta, figures.wl, figures.win_rate))
    with pytest.raises(ValueError, match=r"expected \(U,\)"):
        outcome([[1.0]], [[True]])


@pytest.mark.parametrize(
    ("n", "mean", "sd"), [(100, 1.021, 0.209), (300, 1.007, 0.117), (600, 1.003, 0.082), (1000, 1.002, 0.064)]
)
def test_win_loss_of_equal_responses_is_biased_upwards_and_its_logarithm_is_not(n, mean, sd):
    wins = np.arange(n + 1)
    figures = [DrawOutcome(n, 0, 0.0, int(w), int(n - w), 0) for w in wins]
    # 0 or n wins of n have probability below 1e-29
    inner, weight = slice(1, n), stats.binom.pmf(wins, n, 0.5)[1:n]
    ratio = np.array([f.wl for f in figures])[inner]
    assert weight @ ratio == pytest.approx(mean, abs=0.0005)
    assert math.sqrt(weight @ ratio**2 - (weight @ ratio) ** 2) == pytest.approx(sd, abs=0.0006)
    assert math.exp(weight @ np.array([f.log_wl for f in figures])[inner]) == pytest.approx(1, abs=1e-12)
