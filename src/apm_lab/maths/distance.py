"""The five distances between opinion distributions, and the largest each can be (RMP Sec. 5.2, App. C; SPEC 2).

Arrays are batches of questions with up to K choices. `real` (Q, K) says which choices a question has; a distribution is
zero beyond them. Batches broadcast: models (R, 1, Q, K) against groups (G, Q, K) give (R, G, Q).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.errors import ConfigError, did_you_mean

__all__ = ["DISTANCES", "Distance", "constant_choices", "distance", "largest_distance", "rank_positions"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Distance = Literal["jensen_shannon", "wasserstein", "euclidean", "correlation", "total_variation"]
DISTANCES: tuple[Distance, ...] = get_args(Distance)


def rank_positions(real: Mask) -> Array:
    """Return the positions 0..N-1 (Q, K) of each question's choices in order, which RMP gives ordinal opinions."""
    return np.where(real, np.cumsum(real, axis=-1) - 1.0, 0.0)


def distance(name: Distance, one: ArrayLike, other: ArrayLike, real: Mask, positions: Array | None = None) -> Array:
    """Return the distance (..., Q) between distributions (..., Q, K).

    `jensen_shannon`: square root of the Jensen-Shannon divergence in bits. `wasserstein`: the 1-Wasserstein distance of
    mass at `positions` (Q, K), ranks where None. `euclidean`: L2. `correlation`: sqrt((1 - Corr) / 2), Corr = 0 where
    either is constant. `total_variation`: half L1. ConfigError for another name.
    """
    _require_known(name)
    p, q = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if name == "jensen_shannon":
        return _jensen_shannon(p, q)
    if name == "wasserstein":
        return _wasserstein(p, q, real, rank_positions(real) if positions is None else positions)
    if name == "correlation":
        found: Array = np.sqrt((1.0 - _correlation(p, q, real)).clip(0.0) / 2.0)
    elif name == "euclidean":
        found = np.sqrt(np.square(p - q).sum(axis=-1))
    else:
        found = np.abs(p - q).sum(axis=-1) / 2.0
    return found


def largest_distance(name: Distance, real: Mask, positions: Array | None = None) -> Array:
    """Return D* (Q,), the largest distance that two distributions over a question's choices can have.

    1, sqrt 2, or the range of `positions`. It is 0 where that range is 0, or there are fewer than two choices: such a
    question says nothing, and has no alignment.
    """
    _require_known(name)
    several = real.sum(axis=-1) > 1
    if name == "wasserstein":
        at = rank_positions(real) if positions is None else positions
        span = np.where(real, at, -np.inf).max(axis=-1) - np.where(real, at, np.inf).min(axis=-1)
        return np.where(several, span, 0.0)
    return np.where(several, np.sqrt(2.0) if name == "euclidean" else 1.0, 0.0)


def constant_choices(values: ArrayLike, real: Mask) -> Mask:
    """Return (..., Q) where a distribution (..., Q, K) is the same for every choice, and so has no correlation."""
    centred = _centred(np.asarray(values, dtype=np.float64), real)
    found: Mask = np.square(centred).sum(axis=-1) <= _TINY
    return found


_TINY = 1e-24  # a sum of squares that is zero but for rounding


def _require_known(name: str) -> None:
    if name not in DISTANCES:
        raise ConfigError(f"distance={name}: no such distance{did_you_mean(name, DISTANCES)}")


def _jensen_shannon(p: Array, q: Array) -> Array:
    middle = (p + q) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(part > 0, part * np.log2(part / middle), 0.0) for part in (p, q)]
    # Rounding can leave the divergence of two equal distributions just below zero.
    found: Array = np.sqrt((terms[0] + terms[1]).sum(axis=-1).clip(0.0) / 2.0)
    return found


def _wasserstein(p: Array, q: Array, real: Mask, positions: Array) -> Array:
    # Choices that a question does not have go last, where all mass has been counted.
    order = np.argsort(np.where(real, positions, np.inf), axis=-1, kind="stable")
    at = np.take_along_axis(np.where(real, positions, np.nan), order, axis=-1)
    gaps = np.nan_to_num(np.diff(at, axis=-1))
    apart = p - q
    ordered = np.take_along_axis(apart, np.broadcast_to(order, apart.shape), axis=-1)
    carried = np.abs(np.cumsum(ordered, axis=-1)[..., :-1])
    found: Array = (carried * gaps).sum(axis=-1)
    return found


def _correlation(p: Array, q: Array, real: Mask) -> Array:
    a, b = _centred(p, real), _centred(q, real)
    product, norms = (a * b).sum(axis=-1), np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)
    flat = (np.square(a).sum(axis=-1) <= _TINY) | (np.square(b).sum(axis=-1) <= _TINY)
    return np.where(flat, 0.0, product / np.sqrt(np.where(flat, 1.0, norms))).clip(-1.0, 1.0)


def _centred(values: Array, real: Mask) -> Array:
    count = np.maximum(real.sum(axis=-1, keepdims=True), 1)
    mean = np.where(real, values, 0.0).sum(axis=-1, keepdims=True) / count
    return np.where(real, values - mean, 0.0)
