"""The bootstrap over questions."""

import numpy as np
import pytest

from apm_lab.maths.resampled import bounds, resampled_means


def test_the_spread_of_a_mean_is_that_of_its_standard_error():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 400))
    found = resampled_means(values, np.ones((2, 400), dtype=bool), 2000, rng)
    assert found.mean(axis=0) == pytest.approx(values.mean(axis=1), abs=0.005)
    assert found.std(axis=0) == pytest.approx(values.std(axis=1) / 20, rel=0.06)


def test_rows_share_their_samples_so_that_a_constant_difference_has_no_spread():
    rng = np.random.default_rng(1)
    one = rng.normal(size=50)
    found = resampled_means(np.stack([one, one + 2.0]), np.ones((2, 50), dtype=bool), 100, rng)
    assert np.ptp(found[:, 1] - found[:, 0]) < 1e-12


def test_what_is_not_counted_has_no_say():
    values, counted = np.array([[1.0, 99.0, 1.0]]), np.array([[True, False, True]])
    found = resampled_means(values, counted, 200, np.random.default_rng(2))
    assert np.nanmax(found) == np.nanmin(found) == 1.0


def test_samples_that_are_not_known_are_left_out_of_an_interval_unless_they_are_many():
    samples = np.tile(np.arange(101.0)[:, None], (1, 2))
    samples[::40, 0] = np.nan
    samples[:80, 1] = np.nan
    low, high = bounds(samples)
    assert low[0] == pytest.approx(3.0, abs=1.0) and high[0] == pytest.approx(97.5, abs=1.0)
    assert np.isnan(low[1]) and np.isnan(high[1])


def test_the_interval_holds_the_middle_share():
    low, high = bounds(np.arange(101.0)[:, None])
    assert (low.item(), high.item()) == pytest.approx((2.5, 97.5))
