"""Scores of the held-out training users' choices after every validation epoch, read off stored ratings."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torchmetrics import MeanMetric

from apm_lab.training.metrics import Delta, WinLoss, WinRate
from apm_lab.training.validation_set import ValidationSet

__all__ = ["ScoringCallback"]


class ScoringCallback(Callback):
    """Logs `val/accuracy` (classification), `val/delta`, `val/win_rate` and `val/wl`.

    The difference is the rating of the chosen style minus the mean rating of the user's own 2M candidates, which
    stands in for the neutral response that held-out training users lack (SPEC 1, Methods).
    """

    def __init__(self, validation: ValidationSet) -> None:
        differences, known = validation.differences()
        self._differences, self._known = torch.from_numpy(differences), torch.from_numpy(known)
        self._accuracy = MeanMetric() if validation.targets.ndim == 1 else None
        self._outcomes: dict[str, Any] = {"val/delta": Delta(), "val/win_rate": WinRate(), "val/wl": WinLoss()}

    def _metrics(self) -> dict[str, Any]:
        return self._outcomes if self._accuracy is None else {"val/accuracy": self._accuracy, **self._outcomes}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Move the metrics to where processes exchange them."""
        for metric in self._metrics().values():
            metric.to(_exchange_device(trainer))

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the last epoch."""
        for metric in self._metrics().values():
            metric.reset()

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: dict[str, Tensor],
        batch: dict[str, Tensor],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count one batch of choices."""
        index, chosen = outputs["index"].cpu(), outputs["chosen"].cpu()
        differences, known = self._differences[index, chosen], self._known[index, chosen]
        device = _exchange_device(trainer)
        for metric in self._outcomes.values():
            metric.update(differences.to(device), known.to(device))
        if self._accuracy is not None:
            self._accuracy.update((chosen == outputs["targets"].cpu()).float().to(device))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the epoch's figures; `compute` sums over processes."""
        for name, metric in self._metrics().items():
            self.log(name, metric.compute().float(), sync_dist=True)


def _exchange_device(trainer: Trainer) -> torch.device:
    """Return the device on which metrics can be summed over processes: NCCL only knows CUDA tensors."""
    device: torch.device = trainer.strategy.root_device
    return device if device.type == "cuda" else torch.device("cpu")
