"""Means over questions when the questions are drawn anew: what the choice of questions does to a figure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bounds", "resampled_means"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_LEAST_KNOWN = 0.95  # of the samples: with fewer than about three questions there is no spread to speak of


def resampled_means(values: Array, counted: Mask, resamples: int, rng: np.random.Generator) -> Array:
    """Return the means (B, ...) of values (..., Q) over B samples of the Q questions, drawn with replacement.

    All rows share their samples, so that ranks and differences can be resampled too. `counted` (..., Q): which values
    there are; NaN where a sample has none of a row's.
    """
    Q = values.shape[-1]
    drawn = rng.multinomial(Q, np.full(Q, 1.0 / Q), size=resamples).astype(np.float64)
    kept = np.where(counted, values, 0.0)
    total = np.tensordot(drawn, kept, axes=(1, values.ndim - 1))
    count = np.tensordot(drawn, counted.astype(np.float64), axes=(1, values.ndim - 1))
    found: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return found


def bounds(samples: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Return the percentile interval (low, high) of samples (B, ...) that are known, NaN where too many are not.

    A sample of few questions may hold none that a group answered.
    """
    tail = (1.0 - level) / 2.0
    if not samples.size:
        empty = np.zeros(samples.shape[1:])
        return empty, empty
    known = ~np.isnan(samples)
    enough = known.mean(axis=0) >= _LEAST_KNOWN
    usable = np.where(enough, samples, 0.0)
    low, high = np.nanquantile(usable, [tail, 1.0 - tail], axis=0)
    return np.where(enough, low, np.nan), np.where(enough, high, np.nan)
