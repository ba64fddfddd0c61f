"""Wilcoxon's test: a small case by hand, the paper's three figures, and what has no verdict."""

import math

import numpy as np
import pytest

from apm_lab.maths.signed_rank import signed_rank


def test_a_small_case_by_hand():
    # differences 1, 2, -3, 4, 0: ranks up 1 + 2 + 4 = 7, down 3; mean 5, s.d. sqrt(4 * 5 * 9 / 24) = 2.7386
    told = signed_rank([0, 0, 0, 0, 0], [1, 2, -3, 4, 0])
    assert (told.n, told.zeros, told.statistic, told.median) == (4, 1, 3.0, 1.0)
    assert told.z == pytest.approx(2 / math.sqrt(7.5))
    assert told.effect == pytest.approx(2 / math.sqrt(7.5) / 2)
    assert told.rank_biserial == pytest.approx(0.4)
    assert signed_rank([1, 2, -3, 4, 0], [0] * 5).z == pytest.approx(-told.z)


@pytest.mark.parametrize(
    ("smaller_sum", "z", "effect", "biserial"),
    [(2681201.0, 5.074, 0.086, 0.100), (2469142.0, 8.697, 0.148, 0.171), (2758902.0, 3.747, 0.064, 0.074)],
)
def test_the_papers_rank_sums_give_its_effect_sizes_with_a_pair_per_model_and_question(
    smaller_sum, z, effect, biserial
):
    # RMP App. F.3 prints T and |Z| / sqrt(N); all three fit N = 3451 = 7 models x 493 questions and no other N near it.
    n = 7 * 493
    left, negative = smaller_sum, np.zeros(n, dtype=bool)
    for rank in range(n, 0, -1):  # the ranks that make the smaller sum, greedily
        if left >= rank:
            negative[rank - 1] = True
            left -= rank
    apart = np.where(negative, -1.0, 1.0) * np.arange(1, n + 1)
    told = signed_rank(np.zeros(n), apart)
    assert told.statistic == smaller_sum
    assert abs(told.z) == pytest.approx(z, abs=5e-4)
    assert told.effect == pytest.approx(effect, abs=5e-4)
    assert abs(told.rank_biserial) == pytest.approx(biserial, abs=5e-4)


def test_what_does_not_move_has_no_verdict():
    told = signed_rank([0.5, 0.5], [0.5, 0.5])
    assert (told.n, told.zeros, told.p_value, told.effect) == (0, 2, None, None)
    assert signed_rank([], []).median is None


def test_normality_is_that_of_all_differences():
    rng = np.random.default_rng(0)
    skewed = rng.exponential(size=400)
    assert signed_rank(np.zeros(400), skewed).shapiro_p < 1e-6
    assert signed_rank(np.zeros(400), rng.normal(size=400)).shapiro_p > 1e-3
    assert signed_rank([0, 0], [1, 2]).shapiro is None
