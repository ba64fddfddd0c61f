"""Soft prompt and adapter trained together by direct preference optimisation (APM Sec. 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from apm_lab.language.hf_choices import Asked
from apm_lab.language.pair_batch import PairBatch
from apm_lab.language.policy_sums import answer_sums, policy_splits
from apm_lab.language.reward_model import RewardCall
from apm_lab.language.soft_prompt import SoftPromptPolicy
from apm_lab.maths.dpo import dpo_loss
from apm_lab.training.router_module import linear_warmup_decay

__all__ = ["SoftPromptModule"]

_RATED_TOGETHER = 32  # texts that are read side by side


class SoftPromptModule(LightningModule):
    """Minimises the mean DPO loss of a batch of pairs; logs loss, mean rewards and the share of pairs put right.

    Optimiser: AdamW on the policy's trained tensors; the learning rate falls in a line to 0 over `steps` optimiser
    steps after `warmup_fraction` of them. Its state holds those tensors alone, never the base model.
    """

    def __init__(
        self,
        policy: SoftPromptPolicy,
        *,
        beta: float,
        learning_rate: float,
        steps: int,
        weight_decay: float = 0.0,
        warmup_fraction: float = 0.0,
    ) -> None:
        super().__init__()
        self.policy, self._beta, self._learning_rate, self._steps = policy, beta, learning_rate, steps
        self._weight_decay, self._warmup_fraction = weight_decay, warmup_fraction
        self._before: dict[RewardCall, list[float]] = {}

    def training_step(self, batch: PairBatch, _: int) -> Tensor:
        """Return the mean loss of the batch."""
        return self._loss(batch, "train")

    def validation_step(self, batch: PairBatch, _: int) -> None:
        """Log the same figures of held-out users' pairs, as means over all of them."""
        self._loss(batch, "val")

    def _loss(self, batch: PairBatch, part: str) -> Tensor:
        chosen, rejected = self.policy.log_probs(batch).chunk(2)
        reference = batch["reference"][0], batch["reference"][1]
        losses, liked, disliked = dpo_loss(chosen, rejected, reference, self._beta)
        figures = {
            "loss": (loss := losses.mean()),
            "reward_chosen": liked.mean(),
            "reward_rejected": disliked.mean(),
            "put_right": (liked > disliked).float().mean(),
        }
        named = {f"{part}/{name}": value.detach() for name, value in figures.items()}
        self.log_dict(named, batch_size=len(losses), sync_dist=part == "val")
        return loss

    def rewards(self, calls: Sequence[RewardCall]) -> list[list[float]]:
        """Return the implicit reward of each answer: beta times what its log-probability has gained since first asked.

        By the adapter alone, without a user's soft prompt; an answer without a token has none (nan).
        """
        splits = policy_splits(self.policy, calls, "chat", "soft_prompt")
        asked = [Asked(before, [behind]) for each in splits for before, behind in each if behind]
        with torch.inference_mode():
            sums = iter(answer_sums(self.policy, asked, None, _RATED_TOGETHER))
        now = [[next(sums) if behind else math.nan for _, behind in each] for each in splits]
        first = [self._before.setdefault(call, values) for call, values in zip(calls, now, strict=True)]
        return [
            [self._beta * (value - other) for value, other in zip(values, others, strict=True)]
            for values, others in zip(now, first, strict=True)
        ]

    def configure_optimizers(self) -> Any:  # noqa: ANN401 (one of many forms that Lightning takes)
        """Return AdamW and its schedule."""
        trained = list(self.policy.trained().values())
        optimizer = torch.optim.AdamW(trained, lr=self._learning_rate, weight_decay=self._weight_decay)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: linear_warmup_decay(step, self._steps, self._warmup_fraction)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def state_dict(self, *_: object, **__: object) -> dict[str, Any]:
        """Return the trained tensors by name."""
        return {name: value.detach() for name, value in self.policy.trained().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], *_: object, **__: object) -> Any:  # noqa: ANN401
        """Copy the trained tensors into the policy."""
        self.policy.fill(state_dict)
