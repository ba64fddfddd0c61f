"""What a user prefers, p_u = normalise(C a_u), and how the simulated user rates a response by it (APM Eqs. 1, 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.errors import ConfigError, did_you_mean

__all__ = ["MIDPOINT", "NORMALISATIONS", "TIE_TOLERANCE", "preferences", "ratings", "weighed_sum"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MIDPOINT = 5.5
"""The midpoint c of the judge's scale 1..10."""

TIE_TOLERANCE = 1e-9
"""Ratings and rewards this close are equal: judge scores are whole numbers, sums of their multiples round."""

NORMALISATIONS = ("l2", "none", "l1")

_CANCELLED = 1e-12  # of the sum of the terms' sizes: what is left when the terms of C a cancel


def preferences(C: ArrayLike, a: ArrayLike, normalise: str = "l2") -> Array:
    """Return the preference vectors p_u (D, U, M) of users `a` (U, N) under mappings `C` (D, M, N).

    A single (M, N) mapping counts as D = 1. `normalise` divides each vector by its L2 norm (the default: it fits the
    paper's k = 2 rows), by its L1 norm, or by nothing (Eq. 2 as printed); zero vectors stay zero. ConfigError for
    another normalisation, ValueError for shapes that don't fit.
    """
    if normalise not in NORMALISATIONS:
        near = did_you_mean(str(normalise), NORMALISATIONS)
        raise ConfigError(f"mapping.normalise={normalise}: no such normalisation{near}")
    matrices, vectors = np.asarray(C, dtype=np.float64), np.asarray(a, dtype=np.float64)
    if matrices.ndim == 2:
        matrices = matrices[None]
    if matrices.ndim != 3 or vectors.ndim != 2 or matrices.shape[2] != vectors.shape[1]:
        raise ValueError(f"C {matrices.shape} and a {vectors.shape}: expected (D, M, N) or (M, N), and (U, N)")
    p = vectors @ matrices.swapaxes(1, 2)
    # an entry whose terms cancel is exactly zero: rounding must neither weigh a principle nor be normalised to 1
    p = np.where(np.abs(p) <= _CANCELLED * (np.abs(vectors) @ np.abs(matrices).swapaxes(1, 2)), 0.0, p)
    if normalise == "none":
        return p
    norm = np.linalg.norm(p, ord=2 if normalise == "l2" else 1, axis=2, keepdims=True)
    unit: Array = np.divide(p, norm, out=np.zeros_like(p), where=norm > 0)
    return unit


def ratings(p: ArrayLike, scores: ArrayLike, known: ArrayLike) -> tuple[Array, Mask]:
    """Return ratings `rho = c + p_u . (J - c)` (U, ...) of `scores` (U, ..., M) by users `p` (U, M), and their mask.

    For k = 1 and a signed permutation a rating is exactly `J_j` or `11 - J_j`. Only principles with `p != 0` are
    weighed; a rating is known iff the scores of all of these are (`known`, shaped like `scores`). Unknown ratings are
    NaN, so that one used without its mask shows. Source: SPEC 1, "What the simulated user says".
    """
    judged = np.asarray(scores, dtype=np.float64)
    values, complete = weighed_sum(p, judged - MIDPOINT, known)
    return MIDPOINT + values, complete


def weighed_sum(p: ArrayLike, scores: ArrayLike, known: ArrayLike) -> tuple[Array, Mask]:
    """Return `p_u . x` (U, ...) of entries `scores` (U, ..., M) with `p != 0`, and where all of these are known.

    What stands in an entry that is unknown or not weighed has no part in the sum; unknown sums are NaN.
    """
    weights, x, mask = np.asarray(p, dtype=np.float64), np.asarray(scores, dtype=np.float64), np.asarray(known)
    if weights.ndim != 2 or x.ndim < 2 or (x.shape[0], x.shape[-1]) != weights.shape or mask.shape != x.shape:
        raise ValueError(
            f"p {weights.shape}, scores {x.shape}, known {mask.shape}: expected (U, M), (U, ..., M), (U, ..., M)"
        )
    if mask.dtype != np.bool_:
        raise ValueError(f"known has dtype {mask.dtype}, expected bool")
    weights = weights.reshape(len(weights), *[1] * (x.ndim - 2), -1)
    weighed = weights != 0
    complete = (mask | ~weighed).all(axis=-1)
    total = np.where(weighed & mask, weights * np.where(mask, x, 0.0), 0.0).sum(axis=-1)
    return np.where(complete, total, np.nan), complete
