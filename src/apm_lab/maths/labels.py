"""Routing labels: from the ratings of a user's 2M styled candidates to what the router learns (APM Eq. 6, Sec. 5.2).

Styles are interleaved, as in the score vector of Sec. 5.2 and in `records.Style`: `2 j` follows principle j, `2 j + 1`
avoids it; S = 2M. Ties go to the lowest index, within `TIE_TOLERANCE`.

**Users with unknown ratings.** A rating is first averaged over those of the user's history prompts where it is known.
A user for whom one of the needed ratings is then still unknown (`one_sided` needs the M follow styles, the others all
2M) is no training example: `usable_users` says who is left, the caller drops and counts the rest. Nothing is imputed:
an argmax over the styles that happen to be known would favour them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.maths.preference import MIDPOINT, TIE_TOLERANCE

__all__ = ["STRATEGIES", "class_labels", "decode", "mean_ratings", "usable_users"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Labels = NDArray[np.int64]

STRATEGIES = ("margin", "two_sided", "one_sided", "regression")


def mean_ratings(values: ArrayLike, known: ArrayLike) -> tuple[Array, Mask]:
    """Return the mean of the known ratings over history prompts, (U, T, S) to (U, S), and where there is one.

    Without a known rating the mean is NaN and its mask False.
    """
    rated, mask = np.asarray(values, dtype=np.float64), np.asarray(known, dtype=np.bool_)
    if rated.ndim != 3 or rated.shape != mask.shape:
        raise ValueError(f"values {rated.shape} and known {mask.shape}: expected (U, T, S) for both")
    count = mask.sum(axis=1)
    total = np.where(mask, rated, 0.0).sum(axis=1)
    rated_at_all: Mask = np.greater(count, 0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=rated_at_all), rated_at_all


def usable_users(strategy: str, known: ArrayLike) -> Mask:
    """Return (U,): whose ratings are known as far as `strategy` needs them, from `known` (U, S)."""
    _check_strategy(strategy)
    mask = np.asarray(known, dtype=np.bool_)
    _check_styles(mask.shape)
    needed = mask[:, ::2] if strategy == "one_sided" else mask
    usable: Mask = np.logical_and.reduce(needed, axis=1)
    return usable


def class_labels(strategy: str, ratings: ArrayLike) -> Labels | Array:
    """Return what the router learns from mean ratings (U, S): style indices (U,), for `regression` a copy (U, S).

    `margin`: the principle with the largest |rho(follow) - rho(avoid)| and its sign (Eq. 6); `two_sided`: the style
    with the largest rating; `one_sided`: the principle whose follow rating is farthest from 5.5, and its sign. A sign
    of 0 counts as follow. ConfigError for another strategy, ValueError for a needed rating that isn't finite.
    """
    _check_strategy(strategy)
    rho = np.array(ratings, dtype=np.float64)
    _check_styles(rho.shape)
    follow, avoid = rho[:, ::2], rho[:, 1::2]
    needed = follow if strategy == "one_sided" else rho
    unknown = ~np.isfinite(needed).all(axis=1)
    if unknown.any():
        raise ValueError(f"{unknown.sum()} of {len(rho)} users have unknown ratings: leave them out by `usable_users`")
    if strategy == "regression":
        return rho
    if strategy == "two_sided":
        return _first_largest(rho)
    signal = follow - avoid if strategy == "margin" else follow - MIDPOINT
    principle = _first_largest(np.abs(signal))
    dislikes = signal[np.arange(len(rho)), principle] < -TIE_TOLERANCE
    styles: Labels = 2 * principle + dislikes
    return styles


def decode(strategy: str, outputs: ArrayLike) -> Labels:
    """Return the style (U,) that a router with these outputs (U, S) chooses: the largest, for every strategy.

    The outputs are class scores, or for `regression` predicted ratings of the 2M candidates.
    """
    _check_strategy(strategy)
    scores = np.asarray(outputs, dtype=np.float64)
    _check_styles(scores.shape)
    if not np.isfinite(scores).all():
        raise ValueError("a router's outputs must be finite")
    chosen: Labels = scores.argmax(axis=1).astype(np.int64)
    return chosen


def _first_largest(x: Array) -> Labels:
    # a plain argmax would let the last bit of a rounded sum decide what is a tie
    first: Labels = (x >= x.max(axis=1, keepdims=True) - TIE_TOLERANCE).argmax(axis=1).astype(np.int64)
    return first


def _check_strategy(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise ConfigError(f"method.label={strategy}: no such strategy{did_you_mean(str(strategy), STRATEGIES)}")


def _check_styles(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[1] < 2 or shape[1] % 2:
        raise ValueError(f"shape {shape}: expected (U, S) with S = 2M, two styles a principle")
