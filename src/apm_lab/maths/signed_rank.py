"""Whether paired values moved, and how far: Wilcoxon's signed-rank test with its effect size (RMP App. F.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["SignedRank", "signed_rank"]

_FEWEST = 3  # of Shapiro and Wilk's test
_MOST_SHAPIRO = 5000  # beyond this its p-value is not accurate


@dataclass(frozen=True, slots=True)
class SignedRank:
    """Two-tailed signed-rank test of n pairs that differ; pairs that do not (`zeros`) are dropped.

    `statistic` is the smaller of the two rank sums, as RMP prints it; `z` is negative where values fell; `effect` is
    |Z| / sqrt(n) and `rank_biserial` (rank sum up - rank sum down) / all ranks. `median` is that of all differences.
    `shapiro`, `shapiro_p`: of the differences, None below three or where all are equal. All None where no pair differs.
    """

    n: int
    zeros: int
    median: float | None
    statistic: float | None
    z: float | None
    p_value: float | None
    effect: float | None
    rank_biserial: float | None
    shapiro: float | None
    shapiro_p: float | None


def signed_rank(before: ArrayLike, after: ArrayLike) -> SignedRank:
    """Return how `after` (N,) differs from `before` (N,); statistics by scipy, normal approximation with ties."""
    from scipy.stats import rankdata, wilcoxon

    apart = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    moved = apart[apart != 0]
    n, zeros = len(moved), int((apart == 0).sum())
    if not n:
        return SignedRank(0, zeros, 0.0 if zeros else None, *[None] * 7)
    ranked = rankdata(np.abs(moved))
    up, down = float(ranked[moved > 0].sum()), float(ranked[moved < 0].sum())
    told = wilcoxon(moved, method="asymptotic", correction=False, alternative="two-sided")
    size = abs(float(told.zstatistic))
    return SignedRank(
        n=n,
        zeros=zeros,
        median=float(np.median(apart)),
        statistic=min(up, down),
        z=size if up >= down else -size,
        p_value=float(told.pvalue),
        effect=size / np.sqrt(n).item(),
        rank_biserial=(up - down) / (up + down),
        **_normality(apart),
    )


def _normality(apart: np.ndarray) -> dict[str, float | None]:
    if len(apart) < _FEWEST or not np.ptp(apart) > 0:
        return {"shapiro": None, "shapiro_p": None}
    from scipy.stats import shapiro

    told = shapiro(apart[:: len(apart) // _MOST_SHAPIRO + 1])  # every second, third .. of very many
    return {"shapiro": float(told.statistic), "shapiro_p": float(told.pvalue)}
