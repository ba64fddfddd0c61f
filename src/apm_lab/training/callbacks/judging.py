"""The simulated user's verdict on what the router would serve held-out training users, asked while it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from apm_lab.errors import ConfigError
from apm_lab.training.metrics import Delta, WinLoss
from apm_lab.training.validation_set import Respond

__all__ = ["JudgingCallback"]


class JudgingCallback(Callback):
    """Logs `val/judged_delta` and `val/judged_wl` after every `every_n_epochs`-th epoch.

    `respond(indices, styles)` generates in the chosen styles for the held-out *training* users `indices` and asks
    the simulated user; it returns `(differences, known)`. Each process asks for its own users only.
    """

    def __init__(self, respond: Respond, every_n_epochs: int = 1) -> None:
        if every_n_epochs < 1:
            raise ConfigError(f"every_n_epochs is {every_n_epochs}, expected at least 1")
        self._respond, self._every = respond, every_n_epochs
        self._chosen: list[Tensor] = []
        self._index: list[Tensor] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the last epoch's choices."""
        self._chosen, self._index = [], []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: dict[str, Tensor],
        batch: dict[str, Tensor],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep one batch of choices: one call for all of them lets the method generate in large batches."""
        self._index.append(outputs["index"].cpu())
        self._chosen.append(outputs["chosen"].cpu())

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ask for and log the verdicts, users in their own order."""
        if (trainer.current_epoch + 1) % self._every:
            return
        index, chosen = torch.cat(self._index).numpy(), torch.cat(self._chosen).numpy()
        order = np.argsort(index)
        differences, known = self._respond(index[order], chosen[order])
        root = trainer.strategy.root_device
        device = root if root.type == "cuda" else torch.device("cpu")
        metrics: dict[str, Any] = {"val/judged_delta": Delta(), "val/judged_wl": WinLoss()}
        for name, metric in metrics.items():
            metric.to(device)
            metric.update(
                torch.as_tensor(np.asarray(differences, dtype=np.float64), device=device),
                torch.as_tensor(np.asarray(known, dtype=np.bool_), device=device),
            )
            self.log(name, metric.compute().float(), sync_dist=True)
