"""Two-way intervals over mapping draws and users, and the verdict on a control arm (SPEC 1, "Intervals and tests").

Users and texts are shared by all draws, so a figure varies in two ways: SEd is the s.d. of the B block means over
sqrt B, SEu the s.d. of the U user means over sqrt U. A block is a draw, an antithetic pair or a whole Latin square.
Arrays are values (D, U), a mask `known` (D, U) and the block of each draw (D,). A statistic that can't be had (no known
value, an s.d. of a single mean) is NaN, an interval that can't be bounded is infinite, and `note` says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.maths.preference import TIE_TOLERANCE
from apm_lab.maths.seeding import stream
from apm_lab.maths.two_way import TwoWay, standard_error, two_way

__all__ = [
    "METRICS",
    "SLACK",
    "ControlVerdict",
    "Interval",
    "control_check",
    "mean_interval",
    "metric_interval",
]

Array = NDArray[np.float64]

METRICS = ("delta", "win_rate", "wl", "log_wl")

SLACK = 1e-9
"""How far outside an interval a value may lie by rounding: with antithetic draws a blind policy's is [0, 0]."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval `low`..`high` at `level`, and what it rests on.

    `blocks` B and `users` U are counted after those without a known value are left out. `se_draw` is NaN for B < 2,
    `se_user` for U < 2. For `wl` the standard errors are those of the logarithm.
    """

    estimate: float
    low: float
    high: float
    level: float
    se_draw: float
    se_user: float
    blocks: int
    users: int
    note: str = ""

    def excludes(self, value: float) -> bool:
        """Whether `value` lies outside by more than rounding."""
        return value < self.low - SLACK or value > self.high + SLACK


@dataclass(frozen=True, slots=True)
class ControlVerdict:
    """A control arm's mean, its interval, and whether 0 lies inside: where `passed` is False the run is void."""

    estimate: float
    low: float
    high: float
    passed: bool
    level: float = 0.999
    note: str = ""


def mean_interval(values: ArrayLike, known: ArrayLike, blocks: ArrayLike, level: float = 0.95) -> Interval:
    """Return the interval of a mean of users: Delta from differences, the win rate from 1, 1/2 and 0.

    The estimate is the mean over draws of each draw's mean over users. Interval = estimate +-
    sqrt((t(B-1) SEd)^2 + (t(U-1) SEu)^2); for B < 2 the user part alone, noted "for these draws". A block with a draw
    in which nothing is known is left out whole, a user of whom nothing is known likewise.
    """
    table = two_way(values, known, blocks)
    return _interval(table, table.block_means(), standard_error(table.user_means), level)


def metric_interval(
    metric: str,
    values: ArrayLike,
    known: ArrayLike,
    blocks: ArrayLike,
    seed: int | str,
    level: float = 0.95,
    resamples: int = 500,
) -> Interval:
    """Return the interval of `metric` (one of METRICS) from differences (D, U), exact ties being 0.

    `delta` and `win_rate` are means of users (`mean_interval`). `log_wl` is the mean over draws of the draws'
    log W/L; its SEu is the s.d. of that mean over `resamples` bootstrap samples of users, each used for all draws.
    `wl` is the same interval exponentiated, so its estimate is the geometric mean over draws.

    In a draw (or resample) without wins or without losses 1/2 is added to both counts, for the logarithm to be finite;
    the note says so where it befalls the data. Without any decided user in some draw the estimate is NaN. The seed
    names the bootstrap's stream. ConfigError for another metric.
    """
    if metric not in METRICS:
        raise ConfigError(f"metric {metric}: no such metric{did_you_mean(str(metric), METRICS)}")
    d = np.asarray(values, dtype=np.float64)
    if metric == "delta":
        return mean_interval(d, known, blocks, level)
    signs = np.where(np.asarray(known), np.sign(np.where(np.abs(d) <= TIE_TOLERANCE, 0.0, d)), np.nan)
    if metric == "win_rate":
        return mean_interval((signs + 1) / 2, known, blocks, level)
    log = _log_win_loss(two_way(signs, known, blocks), stream(seed, "bootstrap", "users"), level, resamples)
    return log if metric == "log_wl" else _exponentiated(log)


def control_check(values: ArrayLike, known: ArrayLike, blocks: ArrayLike, level: float = 0.999) -> ControlVerdict:
    """Return whether 0 lies within estimate +- t(Welch df) sqrt(SEd^2 + SEu^2) of a control arm's differences (D, U).

    These arms have no between-draw part, both errors estimate the same thing, and so the check bites even at 4 draws,
    where `mean_interval` is too wide. For B < 2 SEu alone; slack 1e-9. An arm without a known value hasn't passed.
    """
    table = two_way(values, known, blocks)
    means, se_user = table.block_means(), standard_error(table.user_means)
    estimate, B, U = _mean(means), table.blocks, table.users
    if U < 2:
        half = math.inf if U else math.nan
    elif B < 2:
        half = _t(level, U - 1) * se_user
    else:
        draw, user = standard_error(means) ** 2, se_user**2
        # Welch-Satterthwaite; with no variation at all any degrees of freedom do
        df = (draw + user) ** 2 / (draw**2 / (B - 1) + user**2 / (U - 1)) if draw + user > 0 else 1.0
        half = _t(level, df) * math.sqrt(draw + user)
    low, high = estimate - half, estimate + half
    return ControlVerdict(estimate, low, high, low - SLACK <= 0 <= high + SLACK, level, table.note)


def _mean(means: Array) -> float:
    return float(means.mean()) if len(means) else math.nan


def _t(level: float, df: float) -> float:
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ConfigError(f"level={level}: expected a number between 0 and 1, such as 0.95")
    return float(stdtrit(df, (1 + level) / 2))


def _interval(table: TwoWay, means: Array, se_user: float, level: float, note: str = "") -> Interval:
    estimate, se_draw = _mean(means), standard_error(means)
    B, U = table.blocks, table.users
    if U < 2:
        half = math.inf if U else math.nan
    else:
        half = math.hypot(_t(level, B - 1) * se_draw if B > 1 else 0.0, _t(level, U - 1) * se_user)
    return Interval(estimate, estimate - half, estimate + half, level, se_draw, se_user, B, U, _join(table.note, note))


def _join(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _log_win_loss(table: TwoWay, rng: np.random.Generator, level: float, resamples: int) -> Interval:
    win, loss = (table.values > 0).astype(np.float64), (table.values < 0).astype(np.float64)
    wins, losses = win.sum(axis=1), loss.sum(axis=1)
    if table.users == 0 or not (wins + losses).all():
        note, nan = _join(table.note, "a draw without a decided user"), math.nan
        return Interval(nan, nan, nan, level, nan, nan, table.blocks, table.users, note)
    counts = _resampled_counts(rng, resamples, table.users)
    logs = _log_ratio(counts @ win.T, counts @ loss.T).mean(axis=1)
    se_user = float(logs.std(ddof=1)) if table.users > 1 else math.nan
    lacking = int(((wins == 0) | (losses == 0)).sum())
    note = f"1/2 added to wins and losses of {lacking} draw(s) that lack one of them" if lacking else ""
    return _interval(table, table.block_means(_log_ratio(wins, losses)), se_user, level, note)


def _log_ratio(wins: Array, losses: Array) -> Array:
    half = np.where((wins == 0) | (losses == 0), 0.5, 0.0)
    ratio: Array = np.log((wins + half) / (losses + half))
    return ratio


def _resampled_counts(rng: np.random.Generator, resamples: int, U: int) -> Array:
    """Return (R, U): how often each user is drawn, multinomial, in `resamples` samples of U users with replacement."""
    drawn = rng.integers(0, U, size=(resamples, U)) + U * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * U).reshape(resamples, U).astype(np.float64)


def _exponentiated(log: Interval) -> Interval:
    with np.errstate(over="ignore"):
        estimate, low, high = (float(np.exp(x)) for x in (log.estimate, log.low, log.high))
    note = _join(log.note, "standard errors of the logarithm")
    return Interval(estimate, low, high, log.level, log.se_draw, log.se_user, log.blocks, log.users, note)
