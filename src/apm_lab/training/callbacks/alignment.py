"""Whose opinions a module rewards while it trains: alignment with a survey's respondents, beside its other figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.language.reward_model import RewardCall
from apm_lab.maths.distance import Distance
from apm_lab.training.opinion_metric import OpinionAlignment

__all__ = ["AlignmentCallback", "OpinionProbe", "YieldsRewards"]

Rewards = Sequence[Sequence[float]]


@runtime_checkable
class YieldsRewards(Protocol):
    """A module that rates answers as it is now."""

    def rewards(self, calls: Sequence[RewardCall]) -> Rewards:
        """Return a reward per answer of each call; not finite where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class OpinionProbe:
    """Q survey questions as they are asked, and what people answered.

    `shares`, `real`, and where choices have an order `positions`, are (Q, K).
    """

    calls: tuple[RewardCall, ...]
    shares: NDArray[np.float64]
    real: NDArray[np.bool_]
    positions: NDArray[np.float64] | None
    distance: Distance
    temperature: float = 1.0


class AlignmentCallback(Callback):
    """Logs `val/alignment` after every epoch, and `val/alignment_uniform`: that of a model with no preference.

    Rewards come from `rate(calls)`, or from the module's own `rewards` (`YieldsRewards`). They are asked for once
    before training too: a module trained by DPO rewards what it likes better than it did then. Each process rates its
    own part of the questions.
    """

    def __init__(self, probe: OpinionProbe, rate: Callable[[Sequence[RewardCall]], Rewards] | None = None) -> None:
        self._probe, self._given = probe, rate

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let the module note what it finds before it learns."""
        self._rate(pl_module)(self._own(trainer)[0])

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the epoch's alignment."""
        calls, rows = self._own(trainer)
        K = self._probe.real.shape[1]
        rewards = np.full((len(calls), K), np.nan)
        training = pl_module.training
        pl_module.eval()
        for row, values in enumerate(self._rate(pl_module)(calls)):
            rewards[row, : len(values)] = values
        pl_module.train(training)
        root = trainer.strategy.root_device
        device = root if root.type == "cuda" else torch.device("cpu")
        for name, given in (("alignment", rewards), ("alignment_uniform", np.zeros_like(rewards))):
            metric = OpinionAlignment(self._probe.distance, self._probe.temperature).to(device)
            metric.update(
                torch.from_numpy(given),
                torch.from_numpy(self._probe.shares[rows]),
                torch.from_numpy(self._probe.real[rows]),
                None if self._probe.positions is None else torch.from_numpy(self._probe.positions[rows]),
            )
            self.log(f"val/{name}", metric.compute().float(), sync_dist=True)

    def _own(self, trainer: Trainer) -> tuple[list[RewardCall], slice]:
        rows = slice(trainer.global_rank, None, trainer.world_size)
        return list(self._probe.calls[rows]), rows

    def _rate(self, module: LightningModule) -> Callable[[Sequence[RewardCall]], Rewards]:
        if self._given is not None:
            return self._given
        if not isinstance(module, YieldsRewards):
            raise ConfigError(
                f"callbacks.alignment: {type(module).__name__} rates no answers (it has no rewards(calls)); set it null"
            )
        return module.rewards
