"""Agreement of models on ranks: scipy's figures, and the identities by which RMP's printed ones fit together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm, spearmanr

from apm_lab.maths.agreement import agreement, permutation_p, ranks


def test_the_best_aligned_group_has_rank_one_and_ties_are_averaged():
    assert ranks([[0.9, 0.7, 0.8, 0.7]]).tolist() == [[1.0, 3.5, 2.0, 3.5]]


def test_pairs_are_spearmans():
    values = np.random.default_rng(0).normal(size=(3, 9))
    found = agreement(values)
    assert found.pairs[0, 2] == pytest.approx(spearmanr(values[0], values[2]).statistic)
    expected = np.mean([spearmanr(values[a], values[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))])
    assert found.spearman == pytest.approx(expected)


def test_without_ties_friedman_kendall_and_spearman_say_the_same():
    values = np.random.default_rng(1).normal(size=(7, 60)) + np.linspace(0, 2, 60)
    found = agreement(values)
    assert found.spearman == pytest.approx((7 * found.kendall_w - 1) / 6)
    assert found.friedman == pytest.approx(7 * 59 * found.kendall_w)
    assert found.p_value == pytest.approx(chi2.sf(found.friedman, 59))


def test_the_papers_friedman_gives_its_mean_spearman():
    w = 295.73 / (7 * 59)  # RMP Sec. 6.1 on OpinionQA: 60 groups, 7 models
    assert w == pytest.approx(0.716, abs=5e-4)
    assert (7 * w - 1) / 6 == pytest.approx(0.67, abs=5e-3)


@pytest.mark.parametrize(("z", "effect"), [(5.074, 0.086), (8.697, 0.148), (3.747, 0.064)])
def test_the_papers_wilcoxon_effect_sizes_fix_the_unit(z, effect):
    pairs = 7 * 493  # models x questions
    assert pairs == 3451
    assert z / np.sqrt(pairs) == pytest.approx(effect, abs=5e-4)
    assert norm.sf(z) < 1e-3


def test_models_that_agree_wholly():
    found = agreement(np.tile(np.arange(5.0), (4, 1)))
    assert found.spearman == pytest.approx(1)
    assert found.kendall_w == pytest.approx(1)


@pytest.mark.parametrize("values", [[[1.0, 2.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]], np.ones((3, 4))])
def test_what_can_not_be_told_is_none(values):
    found = agreement(values)
    assert found.friedman is None and found.kendall_w is None and found.p_value is None
    if np.ptp(values) == 0 or len(values) == 1:
        assert found.spearman is None


def test_the_permutation_p_value_is_the_exact_one_of_a_small_case():
    # Two models, three groups, equal ranks: one of the 3! orders of the second model agrees as well: 1/6.
    p = permutation_p([[3.0, 2.0, 1.0], [0.9, 0.5, 0.1]], np.random.default_rng(0), 20_000)
    assert p == pytest.approx(1 / 6, abs=0.01)
    assert permutation_p([[1.0, 1.0], [1.0, 2.0]], np.random.default_rng(0)) is None
    assert permutation_p([[1.0, 2.0]], np.random.default_rng(0)) is None


def test_models_that_rank_by_chance_have_p_values_that_are_uniform():
    rng = np.random.default_rng(3)
    found = np.array([permutation_p(rng.normal(size=(4, 6)), rng, 199) for _ in range(300)])
    assert np.mean(found <= 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(found <= 0.5) == pytest.approx(0.5, abs=0.09)
