"""One mapping draw's figures: per-user reward differences, Delta, W/L and the win rate (APM Sec. 5, "Metrics")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.maths.preference import TIE_TOLERANCE, weighed_sum

__all__ = ["DrawOutcome", "differences", "outcome"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def differences(
    p: ArrayLike, scores_a: ArrayLike, known_a: ArrayLike, scores_b: ArrayLike, known_b: ArrayLike
) -> tuple[Array, Mask]:
    """Return the reward of response A less that of B, `p_u . (J(A) - J(B))` (U,), and where it is known.

    All arguments are (U, M). Only principles with `p != 0` are weighed, and all of these must be known on both sides;
    unknown differences are NaN. Scores are subtracted before they are weighed, and what is within `TIE_TOLERANCE` of
    zero is exactly zero: comparing two rounded rewards breaks a third of the ties at k = 2. Source: APM Eqs. 2 and 9.
    """
    mask_a, mask_b = np.asarray(known_a), np.asarray(known_b)
    apart = np.asarray(scores_a, dtype=np.float64) - np.asarray(scores_b, dtype=np.float64)
    values, known = weighed_sum(p, apart, mask_a & mask_b)
    return np.where(np.abs(values) <= TIE_TOLERANCE, 0.0, values), known


@dataclass(frozen=True, slots=True)
class DrawOutcome:
    """Delta and the counts of one draw: `n` users with a known difference, `n_missing` without one.

    `delta` is their mean difference (score points), NaN for n = 0; `wins` + `losses` + `ties` = n.
    """

    n: int
    n_missing: int
    delta: float
    wins: int
    losses: int
    ties: int

    @property
    def wl(self) -> float:
        """Wins over losses, ties left out: `inf` without a loss, NaN without a decided user."""
        if self.losses:
            return self.wins / self.losses
        return math.inf if self.wins else math.nan

    @property
    def log_wl(self) -> float:
        """Natural logarithm of `wl`; its expectation under no effect is 0, that of `wl` is above 1."""
        ratio = self.wl
        return math.log(ratio) if ratio else -math.inf

    @property
    def win_rate(self) -> float:
        """Share of wins, ties counted as half wins (APM Theorem 2); NaN for n = 0."""
        return (self.wins + self.ties / 2) / self.n if self.n else math.nan


def outcome(values: ArrayLike, known: ArrayLike) -> DrawOutcome:
    """Return the figures of one draw from its differences (U,) and where they are known."""
    d, mask = np.asarray(values, dtype=np.float64), np.asarray(known, dtype=np.bool_)
    if d.ndim != 1 or d.shape != mask.shape:
        raise ValueError(f"values {d.shape} and known {mask.shape}: expected (U,) for both")
    d = d[mask]
    wins, losses = int((d > TIE_TOLERANCE).sum()), int((d < -TIE_TOLERANCE).sum())
    return DrawOutcome(
        n=len(d),
        n_missing=int((~mask).sum()),
        delta=float(d.mean()) if len(d) else math.nan,
        wins=wins,
        losses=losses,
        ties=len(d) - wins - losses,
    )
