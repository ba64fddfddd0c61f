"""Shares of items: the z-test by hand, the exact paired test, and the false discovery rate."""

import math

import numpy as np
import pytest
from statsmodels.stats.proportion import proportions_ztest

from apm_lab.maths.proportions import one_or_other, paired_shares, rejected, two_shares, wilson


def test_the_z_test_is_the_one_worked_by_hand():
    # 60 of 100 against 45 of 100: pooled .525, s.e. sqrt(.525 * .475 * .02) = .070622, z = .15 / .070622 = 2.1240
    told = two_shares(60, 100, 45, 100)
    assert told.z == pytest.approx(0.15 / math.sqrt(0.525 * 0.475 * 0.02), abs=1e-12)
    assert told.larger == pytest.approx(0.016836, abs=1e-5)
    assert told.larger + told.smaller == pytest.approx(1.0)


@pytest.mark.parametrize("alternative", ["larger", "smaller"])
def test_both_directions_are_those_of_statsmodels_pooled_test(alternative):
    z, p = proportions_ztest([31, 50], [80, 90], alternative=alternative)
    told = two_shares(31, 80, 50, 90)
    assert told.z == pytest.approx(z, abs=1e-12)
    assert getattr(told, alternative) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("counts", [(0, 10, 0, 10), (10, 10, 5, 5), (1, 2, 0, 0)])
def test_where_nothing_varies_there_is_no_test(counts):
    told = two_shares(*counts)
    assert (told.z, told.larger, told.smaller) == (None, None, None)


def test_the_paired_test_counts_only_items_that_differ():
    one = np.array([1, 1, 1, 1, 0, 1, 0], dtype=bool)
    other = np.array([0, 0, 0, 0, 1, 1, 0], dtype=bool)
    told = paired_shares(one, other)
    assert told.n == 5  # 4 against 1: P(X >= 4) of five fair coins is 6/32
    assert told.larger == pytest.approx(6 / 32)
    assert told.smaller == pytest.approx(31 / 32)
    assert paired_shares(one, one).larger is None


def test_the_false_discovery_rate_is_that_of_the_known_family():
    # Benjamini and Hochberg by hand: .01 <= .05/3, .03 <= .10/3, .20 > .15/3; the missing one is no part of the family
    assert rejected([0.03, None, 0.01, 0.20]).tolist() == [True, False, True, False]
    assert rejected([]).tolist() == [] and rejected([None]).tolist() == [False]


def test_both_sides_together():
    assert one_or_other(4, 1).two_sided == pytest.approx(12 / 32)
    assert one_or_other(2, 2).two_sided == 1.0
    assert one_or_other(0, 0).two_sided is None
    assert two_shares(60, 100, 45, 100).two_sided == pytest.approx(0.033671, abs=1e-5)


def test_wilsons_interval_is_the_one_worked_by_hand():
    # 8 of 10, z = 1.96: centre (.8 + .19207) / 1.38415 = .71674, half 1.96 sqrt(.016 + .0096) / 1.38415 = .22658
    assert wilson(8, 10) == pytest.approx((0.49016, 0.94332), abs=1e-4)
    assert wilson(0, 10)[0] == 0.0
    with pytest.raises(ValueError, match="nothing"):
        wilson(0, 0)
