"""An encoder with mean pooling and a linear head, trained to tell which style a user wants (APM Sec. 5.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from lightning.pytorch import LightningModule
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from apm_lab.training.modernbert_pass import pooled_states, takes_short_way

__all__ = ["RouterModule", "linear_warmup_decay", "mean_pool", "standardisation"]

Batch = dict[str, Tensor]


def mean_pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of `hidden` (B, T, H) over the tokens that `mask` (B, T) keeps, (B, H); zeros where none is."""
    kept = mask.unsqueeze(-1).bool()
    total = hidden.masked_fill(~kept, 0.0).sum(dim=1)  # not a product: attention may leave NaN where all is padding
    return total / kept.sum(dim=1).clamp_min(1).to(hidden.dtype)


def linear_warmup_decay(step: int, steps: int, warmup_fraction: float) -> float:
    """Return the share of the learning rate at optimiser step `step` of `steps`: up to 1 in a line, then to 0.

    The first step already moves (share 1 / (warm-up steps + 1)) and so does the last.
    """
    warmup = round(warmup_fraction * steps)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return max(0.0, (steps - step) / max(1, steps - warmup))


def standardisation(ratings: NDArray[np.generic]) -> tuple[Tensor, Tensor]:
    """Return the mean (S,) of each style's ratings (U, S) and the s.d. () of all about them, 1 where they are equal."""
    values = torch.as_tensor(np.asarray(ratings, dtype=np.float64))
    mean = values.mean(dim=0)
    sd = (values - mean).square().mean().sqrt()
    return mean, torch.where(sd > 0, sd, torch.ones_like(sd))


class RouterModule(LightningModule):
    """Maps a history to S = 2M outputs: logits (classification) or ratings (regression).

    `encoder` is anything that returns `last_hidden_state` (B, T, H) for `input_ids` and `attention_mask`.
    Classification minimises cross-entropy. Regression minimises the squared error of the 2M-vector of ratings after
    `(rating - mean_s) / sd`, with the training mean of each style and one common sd: a shift of the bias and a
    scale of the loss, so that learning rates carry over while the optimum stays that of the plain MSE.
    Optimiser: AdamW with linear warm-up over `warmup_fraction` of all steps, then linear decay to 0; biases and
    norms are not decayed. `head_init`: s.d. of the head's first weights. `token_dropout` hides that share of tokens
    from attention and pooling while training.
    """

    target_mean: Tensor
    target_sd: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        *,
        hidden_size: int,
        styles: int,
        objective: Literal["classification", "regression"],
        learning_rate: float,
        weight_decay: float,
        warmup_fraction: float,
        label_smoothing: float = 0.0,
        token_dropout: float = 0.0,
        head_init: float = 0.0,
        target_mean: Tensor | None = None,
        target_sd: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(hidden_size, styles)
        # Logits start near 0 for every style. A small random start helps an encoder that learns from scratch: with an
        # exactly zero head no gradient reaches it in the first step.
        nn.init.normal_(self.head.weight, std=head_init)
        nn.init.zeros_(self.head.bias)
        self.objective, self.styles = objective, styles
        self._learning_rate, self._weight_decay = learning_rate, weight_decay
        self._warmup_fraction = warmup_fraction
        self._label_smoothing, self._token_dropout = label_smoothing, token_dropout
        self._loss_sum: Tensor | float = 0.0
        self._examples = 0
        self.register_buffer("target_mean", torch.zeros(styles) if target_mean is None else target_mean.float())
        self.register_buffer("target_sd", torch.ones(()) if target_sd is None else target_sd.float())

    def forward(self, batch: Batch) -> Tensor:
        """Return the raw outputs (B, S): logits, or standardised ratings."""
        mask = batch["attention_mask"]
        if self.training and self._token_dropout > 0:
            mask = mask * (torch.rand(mask.shape, device=mask.device) >= self._token_dropout)
        ids = batch["input_ids"]
        if takes_short_way(self.encoder, ids):
            pooled = pooled_states(self.encoder, ids, mask)
        else:
            pooled = mean_pool(self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
        outputs: Tensor = self.head(pooled)
        return outputs

    def scores(self, batch: Batch) -> Tensor:
        """Return scores (B, S): softmax probabilities, or ratings on the judge's scale."""
        outputs = self(batch).float()
        if self.objective == "classification":
            return outputs.softmax(dim=-1)
        return outputs * self.target_sd + self.target_mean

    def loss(self, outputs: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean loss over the batch, a scalar."""
        if self.objective == "classification":
            return F.cross_entropy(outputs.float(), targets, label_smoothing=label_smoothing)
        return F.mse_loss(outputs.float(), (targets - self.target_mean) / self.target_sd)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the training loss."""
        loss = self.loss(self(batch), batch["targets"], label_smoothing=self._label_smoothing)
        # Kept here and logged once: a call of `self.log` for each step costs as much as the optimiser's step.
        self._loss_sum = self._loss_sum + loss.detach() * len(batch["index"])
        self._examples += len(batch["index"])
        return loss

    def on_train_epoch_start(self) -> None:
        """Forget the last epoch's losses."""
        self._loss_sum, self._examples = 0.0, 0

    def on_train_epoch_end(self) -> None:
        """Log `train/loss`, the mean over the epoch's examples of all processes."""
        mean = self._loss_sum / max(1, self._examples)
        self.log("train/loss", mean, batch_size=max(1, self._examples), sync_dist=True)

    def validation_step(self, batch: Batch, batch_idx: int) -> Batch:
        """Return what the callbacks read: `index`, `targets` and the chosen style `chosen` (B,)."""
        outputs = self(batch)
        loss = self.loss(outputs, batch["targets"])
        self.log("val/loss", loss, batch_size=len(batch["index"]), sync_dist=True)
        # The argmax of ratings is not that of standardised outputs: styles have means of their own.
        ratings = outputs.float() * self.target_sd + self.target_mean
        chosen = (outputs if self.objective == "classification" else ratings).argmax(dim=-1)
        return {"index": batch["index"], "targets": batch["targets"], "chosen": chosen}

    def configure_optimizers(self) -> dict[str, object]:
        """Return AdamW and its schedule, one step of it for each step of the optimiser."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": self._weight_decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        # One pass over memory instead of ten; Lightning refuses to clip gradients for it in mixed precision.
        fused = str(self.trainer.precision).startswith("32") and all(p.device.type == "cpu" for p in trained)
        optimizer = torch.optim.AdamW(groups, lr=self._learning_rate, fused=fused or None)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: linear_warmup_decay(step, steps, self._warmup_fraction)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
