import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apm_lab.errors import ConfigError
from apm_lab.maths.inference import control_check, mean_interval, metric_interval

SMALL = np.array([[1.0, 2, 3], [3, 4, 5]])


def known(x):
    return np.ones(np.shape(x), dtype=bool)


def noise(seed, D, U, mean=0.0):
    return np.random.default_rng(seed).normal(mean, 3, (D, U))


def test_mean_interval_by_hand():
    # SEd = s.d.(2, 4) / sqrt 2 = 1; SEu = s.d.(2, 3, 4) / sqrt 3 = .57735; t(1) = 12.7062, t(2) = 4.30265
    interval = mean_interval(SMALL, known(SMALL), [0, 1])
    assert interval.estimate == 3
    assert (interval.se_draw, interval.se_user) == pytest.approx((1, 0.5773503))
    half = math.sqrt(12.7062**2 + (4.30265 * 0.5773503) ** 2)
    assert (interval.low, interval.high) == pytest.approx((3 - half, 3 + half), rel=1e-5)
    assert (interval.blocks, interval.users, interval.level, interval.note) == (2, 3, 0.95, "")


def test_blocks_and_not_draws_are_counted():
    values = np.array([[1.0, 2, 3], [3, 4, 5], [2, 3, 4], [4, 5, 6]])
    interval = mean_interval(values, known(values), [0, 0, 1, 1])
    assert interval.blocks == 2
    assert interval.se_draw == pytest.approx(0.5)  # block means 3 and 4


def test_one_block_has_the_user_part_alone():
    interval = mean_interval(SMALL, known(SMALL), [0, 0])
    assert interval.note == "for these draws"
    assert math.isnan(interval.se_draw)
    assert interval.high - 3 == pytest.approx(4.30265 * 0.5773503, rel=1e-5)


def test_the_level_is_that_of_both_parts():
    wide = mean_interval(SMALL, known(SMALL), [0, 1], level=0.999)
    half = math.hypot(stats.t.ppf(0.9995, 1), stats.t.ppf(0.9995, 2) / math.sqrt(3))
    assert wide.high == pytest.approx(3 + half)
    with pytest.raises(ConfigError, match="level=95"):
        mean_interval(SMALL, known(SMALL), [0, 1], level=95)


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_intervals_move_and_stretch_with_the_values(seed, scale, shift):
    values = noise(seed, 4, 6)
    plain, moved = (mean_interval(x, known(x), range(4)) for x in (values, scale * values + shift))
    expected = [scale * x + shift for x in (plain.estimate, plain.low, plain.high)]
    assert [moved.estimate, moved.low, moved.high] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_unknown_values_are_left_out():
    values = np.array([[1.0, 2, 99, 3], [3, 4, 99, 99]])
    mask = values < 99
    interval = mean_interval(values, mask, [0, 1])
    assert interval.estimate == (2 + 3.5) / 2
    assert interval.users == 3
    assert interval.se_user == pytest.approx(np.std([2, 3, 3], ddof=1) / math.sqrt(3))


def test_too_little_to_bound():
    single = mean_interval([[1.0], [2.0]], known([[1], [1]]), [0, 1])
    assert (single.estimate, single.low, single.high) == (1.5, -math.inf, math.inf)
    assert single.note == "a single user"
    nothing = mean_interval(SMALL, ~known(SMALL), [0, 1])
    assert all(math.isnan(x) for x in (nothing.estimate, nothing.low, nothing.high))
    assert not nothing.excludes(0.0)
    assert "no known value" in nothing.note


# four decided users and two undecided: draw 0 has 4 wins and 2 losses, draw 1 has 2, 2 and two ties
DECIDED = np.array([[1.0, 2, 1, 3, -1, -2], [1, 1, -4, -1, 0, 1e-12]])


def test_win_loss_by_hand():
    log = metric_interval("log_wl", DECIDED, known(DECIDED), [0, 1], seed=0)
    assert log.estimate == pytest.approx(math.log(2) / 2)
    assert log.se_draw == pytest.approx(math.log(2) / 2)
    half = math.hypot(12.7062 * log.se_draw, 2.570582 * log.se_user)
    assert (log.low, log.high) == pytest.approx((log.estimate - half, log.estimate + half), rel=1e-5)
    ratio = metric_interval("wl", DECIDED, known(DECIDED), [0, 1], seed=0)
    assert ratio.estimate == pytest.approx(math.sqrt(2))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(log.low), math.exp(log.high)))
    assert ratio.note == "standard errors of the logarithm"


def test_win_rate_counts_ties_as_halves():
    rate = metric_interval("win_rate", DECIDED, known(DECIDED), [0, 1], seed=0)
    assert rate.estimate == pytest.approx((4 / 6 + 3 / 6) / 2)
    outcomes = [[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0.5, 0.5]]
    assert rate == mean_interval(outcomes, known(outcomes), [0, 1])


def test_delta_is_the_mean_interval():
    assert metric_interval("delta", SMALL, known(SMALL), [0, 1], seed=0) == mean_interval(SMALL, known(SMALL), [0, 1])


def test_users_are_resampled_once_for_all_draws():
    # 600 wins, 400 losses: s.e. of log W/L by the delta method sqrt(1/600 + 1/400) = .0645, and the same when the same
    # users decide alike in every draw; independent draws would have it divided by sqrt 4
    row = np.where(np.arange(1000) < 600, 1.0, -1.0)
    shared = np.tile(row, (4, 1))
    apart = np.stack([np.random.default_rng(d).permutation(row) for d in range(4)])
    errors = [
        metric_interval("log_wl", x, known(x), range(len(x)), seed=1, resamples=2000).se_user
        for x in (row[None], shared, apart)
    ]
    assert errors == pytest.approx([0.06455, 0.06455, 0.06455 / 2], rel=0.08)


def test_the_bootstrap_is_seeded():
    first, again, other = (metric_interval("wl", DECIDED, known(DECIDED), [0, 1], seed=s) for s in (3, 3, 4))
    assert first == again
    assert first.se_user != other.se_user


def test_a_draw_without_losses_gets_half_a_count_and_a_flag():
    values = np.array([[1.0, 1, 1, 1], [1, 1, -1, -1]])
    log = metric_interval("log_wl", values, known(values), [0, 1], seed=0)
    assert log.estimate == pytest.approx(math.log(4.5 / 0.5) / 2)
    assert "1/2 added to wins and losses of 1 draw(s)" in log.note
    assert math.isfinite(log.se_user)


def test_a_draw_of_ties_only_has_no_win_loss():
    values = np.array([[0.0, 0], [1, -1]])
    ratio = metric_interval("wl", values, known(values), [0, 1], seed=0)
    assert all(math.isnan(x) for x in (ratio.estimate, ratio.low, ratio.high))
    assert "a draw without a decided user" in ratio.note
    nothing = metric_interval("wl", values, ~known(values), [0, 1], seed=0)
    assert math.isnan(nothing.estimate)


def test_a_hopelessly_wide_win_loss_is_infinite_and_not_an_error():
    values = np.array([[1.0] * 9 + [-1], [-1.0] * 9 + [1]])
    ratio = metric_interval("wl", values, known(values), [0, 1], seed=0, level=0.9999)
    assert (ratio.estimate, ratio.low, ratio.high) == (pytest.approx(1), 0, math.inf)


def test_unknown_metric():
    with pytest.raises(ConfigError, match="did you mean win_rate"):
        metric_interval("winrate", SMALL, known(SMALL), [0, 1], seed=0)


def test_control_check_by_hand():
    # SEd^2 = 1, SEu^2 = 1/3: df = (4/3)^2 / (1 + (1/9) / 2) = 1.684211
    verdict = control_check(SMALL, known(SMALL), [0, 1], level=0.95)
    half = stats.t.ppf(0.975, 1.684211) * math.sqrt(4 / 3)
    assert (verdict.low, verdict.high) == pytest.approx((3 - half, 3 + half), rel=1e-5)
    assert verdict.passed
    assert control_check(SMALL, known(SMALL), [0, 1]).level == 0.999


def test_control_check_of_one_block_has_the_user_part_alone():
    values = np.array([[1.0, 2, 3]])
    half = stats.t.ppf(0.9995, 2) / math.sqrt(3)
    verdict = control_check(values, known(values), [0])
    assert (verdict.low, verdict.high) == pytest.approx((2 - half, 2 + half))
    assert verdict.note == "for these draws"


def test_control_check_slack():
    for constant, passed in ((0.9e-9, True), (1.1e-9, False)):
        values = np.full((2, 3), constant)
        assert control_check(values, known(values), [0, 1]).passed is passed


def test_controls_without_effect_pass_and_a_leak_is_caught_at_four_draws():
    clean = [control_check(x, known(x), range(4)) for x in (noise(seed, 4, 500) for seed in range(300))]
    assert sum(not verdict.passed for verdict in clean) <= 1
    # s.e. of the mean: 3 / sqrt(4 * 500) = .067; a leak of 1 is far outside, though t(3) at 99.9% is 12.9
    leaks = [noise(seed, 4, 500, mean=1.0) for seed in range(50)]
    assert not any(control_check(x, known(x), range(4)).passed for x in leaks)
    assert not all(mean_interval(x, known(x), range(4), level=0.999).excludes(0.0) for x in leaks)


def test_a_control_without_a_known_value_has_not_passed():
    assert not control_check(SMALL, ~known(SMALL), [0, 1]).passed
