"""Metrics of reward differences (SPEC 1, Metrics) that are right over batches and processes."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

from apm_lab.maths.preference import TIE_TOLERANCE

__all__ = ["Delta", "WinLoss", "WinRate"]


def _known_only(differences: Tensor, known: Tensor | None) -> Tensor:
    """Return the known differences as float64, (K,); missing ones are dropped, never counted as zero.

    Raises ValueError when the shapes differ or a known difference is not a number.
    """
    if known is not None:
        if known.shape != differences.shape:
            raise ValueError(f"known has shape {tuple(known.shape)}, the differences {tuple(differences.shape)}")
        differences = differences[known.bool()]
    values: Tensor = differences.detach().reshape(-1).to(torch.float64)
    if bool(values.isnan().any()):
        raise ValueError("a known difference is NaN; mark it as missing in `known` instead")
    return values


class Delta(Metric):
    """The mean difference `r(personalised) - r(neutral)` over known users; nan without one (APM Sec. 3)."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, differences: Tensor, known: Tensor | None = None) -> None:
        """Add one batch: differences (B,) and the mask (B,) of those that are known (None: all)."""
        values = _known_only(differences, known)
        self.total += values.sum()
        self.count += values.numel()

    def compute(self) -> Tensor:
        """Return the mean, a float64 scalar."""
        return self.total / self.count


class _Outcomes(Metric):
    """Counts of users strictly better, strictly worse and tied."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in ("wins", "losses", "ties"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, differences: Tensor, known: Tensor | None = None) -> None:
        """Add one batch: differences (B,) and the mask (B,) of those that are known (None: all)."""
        values = _known_only(differences, known)
        wins, losses = (values > TIE_TOLERANCE).sum(), (values < -TIE_TOLERANCE).sum()
        self.wins += wins
        self.losses += losses
        self.ties += values.numel() - wins - losses


class WinRate(_Outcomes):
    """The share of known users who are better off, ties as halves; nan without one (SPEC 1)."""

    def compute(self) -> Tensor:
        """Return the win rate in [0, 1], a float64 scalar."""
        wins, losses, ties = self.wins.double(), self.losses.double(), self.ties.double()
        return (wins + ties / 2) / (wins + losses + ties)


class WinLoss(_Outcomes):
    """Users strictly better / users strictly worse, ties left out: inf without losses, nan without decided users."""

    def compute(self) -> Tensor:
        """Return W/L in [0, inf] or nan, a float64 scalar."""
        return self.wins.double() / self.losses.double()
