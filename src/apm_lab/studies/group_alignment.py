"""Alignments of groups, and their ranks, where some groups have none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Survey
from apm_lab.maths.agreement import ranks
from apm_lab.maths.opinion import Alignment

__all__ = ["figure", "known_values", "of_groups", "ranked"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def of_groups(survey: Survey, kept: Sequence[int]) -> tuple[Array, Mask]:
    """Return the distributions (G, Q, K) of the kept groups, and which questions each answered (G, Q)."""
    rows = list(kept)
    return survey.shares[rows], survey.answered[rows] > 0


def known_values(found: Alignment) -> Array:
    """Return the alignments, NaN where the two have no question in common."""
    return np.where(found.questions > 0, found.value, np.nan)


def ranked(values: Array) -> Array:
    """Return ranks (B, G) of values (B, G), 1 for the largest; NaN for those without a value."""
    known = ~np.isnan(values)
    return np.where(known, ranks(np.where(known, values, -np.inf)), np.nan)


def figure(value: float) -> float | None:
    """Return a value, None for NaN."""
    return None if np.isnan(value) else float(value)
