"""Alignment of rewards with people's opinions (RMP Eq. 2) as a metric that is right over batches and processes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from apm_lab.maths.distance import Distance
from apm_lab.maths.opinion import alignment, model_opinions

__all__ = ["OpinionAlignment"]


class OpinionAlignment(Metric):
    """Mean over questions of 1 - D / D* between the softmax of rewards and people's shares; nan without a question.

    Args:
        distance: one of `maths.distance.DISTANCES`.
        temperature: of the softmax, above 0.

    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self, distance: Distance = "wasserstein", temperature: float = 1.0) -> None:
        super().__init__()
        self._distance, self._temperature = distance, temperature
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("questions", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, rewards: Tensor, shares: Tensor, real: Tensor, positions: Tensor | None = None) -> None:
        """Add questions: rewards and people's shares (B, K), which choices there are (B, K), and their positions.

        A question with a reward that is not finite, or without any share, is left out.
        """
        given, people, choices = (part.detach().cpu().numpy() for part in (rewards, shares, real.bool()))
        if not given.shape == people.shape == choices.shape or given.ndim != 2:
            raise ValueError(f"rewards {given.shape}, shares {people.shape}, real {choices.shape}: expected one (B, K)")
        at = None if positions is None else positions.detach().cpu().numpy().astype(np.float64)
        model = model_opinions(given.astype(np.float64), choices, self._temperature)
        asked = people.sum(axis=1) > 0
        found = alignment(self._distance, model, (people.astype(np.float64), asked), choices, at)
        self.total += float(found.by_question[found.counted].sum())
        self.questions += int(found.counted.sum())

    def compute(self) -> Tensor:
        """Return the alignment in [0, 1], a float64 scalar."""
        return self.total / self.questions
