import numpy as np
import pytest

from apm_lab.maths.inference import mean_interval
from apm_lab.maths.paired import compare_methods, sign_flip_test


def known(x):
    return np.ones(np.shape(x), dtype=bool)


@pytest.mark.parametrize(
    ("means", "p"),
    [
        ([1] * 6, 2 / 64),
        ([1, 1, 1, 1, 1, -1], 14 / 64),  # |sum| >= 4: none or one sign against the rest, on both sides
        ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], 2 / 64),
        ([0] * 6, 1.0),
        ([1] * 14, 2 / 2**14),
    ],
)
def test_exact_flips_by_hand(means, p):
    test = sign_flip_test(means, seed=0)
    assert test.p == pytest.approx(p)
    assert test.flips == 2 ** len(means)
    assert test.note == "given these users"
    assert sign_flip_test([-x for x in means], seed=0).p == test.p


def test_ties_with_the_observed_sum_survive_rounding():
    # .1 + .2 - .3 and its reorderings differ in the last bit, all are the observed size
    assert sign_flip_test([0.1, 0.2, -0.3, 0, 0, 0], seed=0).p == 1


def test_many_blocks_are_flipped_at_random():
    # |sum| >= 5 of 15 signs: 2 P(X >= 10) = .3018
    test = sign_flip_test([1] * 10 + [-1] * 5, seed=0)
    assert test.flips == 20_000
    assert test.p == pytest.approx(0.3018, abs=0.013)
    assert test == sign_flip_test([1] * 10 + [-1] * 5, seed=0)
    assert sign_flip_test([1] * 40, seed=0).p == 1 / 20_001  # never 0


def test_too_few_blocks():
    test = sign_flip_test([1] * 5, seed=0)
    assert test.p is None
    assert test.note == "too few draws"
    with pytest.raises(ValueError, match="finite"):
        sign_flip_test([np.nan] * 6, seed=0)


def test_comparison():
    values = np.random.default_rng(0).normal(1, 1, (8, 200))
    comparison = compare_methods(values, known(values), range(8), seed=0)
    assert comparison.interval == mean_interval(values, known(values), range(8))
    assert comparison.significant
    assert comparison.sign_flip.p == 2 / 256
    centred = values - values.mean()
    assert not compare_methods(centred, known(centred), range(8), seed=0).significant


def test_nothing_is_significant_with_one_block():
    values = np.random.default_rng(0).normal(5, 1, (2, 200))
    comparison = compare_methods(values, known(values), [0, 0], seed=0)
    assert comparison.interval.excludes(0.0)
    assert not comparison.significant
    assert comparison.interval.note == "for these draws"
    assert comparison.sign_flip.p is None


def test_rounding_is_not_significant():
    # an antithetic design cancels blind methods to the last bit
    values = np.full((6, 3), 1e-16)
    assert not compare_methods(values, known(values), range(6), seed=0).significant
