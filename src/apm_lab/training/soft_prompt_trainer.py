"""One DPO training of a soft-prompt policy: reference log-probabilities once, then Lightning or TRL."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.pair_batch import EncodedPair, on_device, pair_batch
from apm_lab.language.soft_prompt import SoftPromptPolicy
from apm_lab.maths.seeding import derived_seed
from apm_lab.training.callbacks.alignment import AlignmentCallback, OpinionProbe
from apm_lab.training.fit import Log, fit
from apm_lab.training.isolation import isolated
from apm_lab.training.pair_datamodule import PairDataModule, Pairs
from apm_lab.training.predict import inference_device
from apm_lab.training.soft_prompt_module import SoftPromptModule
from apm_lab.training.trainer_settings import TrainerSettings

__all__ = ["DpoSettings", "train_policy", "with_reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoSettings:
    """How a policy is trained (APM Table 5).

    `every_n_steps`: optimiser steps between two states that an interrupted fit goes on from.
    """

    beta: float = 0.1
    learning_rate: float = 5e-5
    weight_decay: float = 0.0
    warmup_fraction: float = 0.0
    batch_size: int = 1
    accumulate: int = 8
    epochs: int = 1
    gradient_checkpointing: bool = False
    engine: Literal["lightning", "trl"] = "lightning"
    every_n_steps: int = 50


def train_policy(
    policy: SoftPromptPolicy,
    training: Pairs,
    settings: DpoSettings,
    trainer: TrainerSettings,
    *,
    seed: int,
    held_out: Pairs | None = None,
    folder: Path | None = None,
    log: Log | None = None,
    probe: OpinionProbe | None = None,
) -> None:
    """Train `policy` in place on `training` pairs; figures of `held_out` users' pairs are logged after every epoch.

    With a `folder` an interrupted training goes on from its last state there. With a `probe` its alignment is logged
    after every epoch. DataError where the loss is not finite.
    """
    _require_device(policy, trainer)
    device = policy.network.device
    with isolated(seed=seed, threads=trainer.threads, cuda=str(device).startswith("cuda")), policy.active():
        shared = policy.shares_prompts()
        known = training._replace(pairs=with_reference(policy, training.pairs, shared=shared))
        if held_out is not None:
            held_out = held_out._replace(pairs=with_reference(policy, held_out.pairs, shared=shared))
        if settings.engine == "trl":
            if probe is not None:
                raise ConfigError("callbacks.alignment: method.engine=trl logs TRL's own figures only; set it null")
            from apm_lab.training.trl_engine import train_with_trl

            train_with_trl(
                policy,
                known.pairs,
                settings,
                epochs=trainer.max_epochs or settings.epochs,
                seed=seed,
                log=log or _nothing,
            )
        else:
            data = PairDataModule(
                known, held_out, policy.with_soft, batch_size=settings.batch_size, seed=seed, shared=shared
            )
            validates = held_out is not None
            _train(policy, data, len(known.pairs), settings, trainer, seed, folder, validates, log, probe)
        policy.to(device)  # Lightning leaves it on the processor
    policy.eval()
    lost = [name for name, value in policy.trained().items() if not torch.isfinite(value).all()]
    if lost:
        raise DataError(f"the soft prompt's training diverged ({lost[0]} is not finite); lower method.learning_rate")


def with_reference(
    policy: SoftPromptPolicy, pairs: Sequence[EncodedPair], *, shared: bool, batch_size: int = 8
) -> list[EncodedPair]:
    """Return the pairs with log-probabilities by the policy as it starts, without its soft prompt.

    A fresh adapter changes nothing, so this is the base model; one that was trained before is part of the reference.
    """
    policy.eval()
    found = list(pairs)
    order = sorted(range(len(pairs)), key=lambda place: -pairs[place].length)
    nobody = np.zeros((len(pairs), policy.settings.width), np.float32)
    plain = _Plain()
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        users = [replace(pairs[place], user=0) for place in part]
        batch = on_device(pair_batch(users, nobody, plain, shared=shared), policy.network.device)
        with torch.inference_mode():
            chosen, rejected = policy.log_probs(batch).double().cpu().chunk(2)
        for place, both in zip(part, zip(chosen.tolist(), rejected.tolist(), strict=True), strict=True):
            found[place] = replace(pairs[place], reference=both)
    return found


def _train(
    policy: SoftPromptPolicy,
    data: PairDataModule,
    count: int,
    settings: DpoSettings,
    trainer: TrainerSettings,
    seed: int,
    folder: Path | None,
    validates: bool,
    log: Log | None,
    probe: OpinionProbe | None,
) -> None:
    epochs = trainer.max_epochs or settings.epochs
    batches = math.ceil(math.ceil(count / settings.batch_size) / (trainer.devices * trainer.num_nodes))
    module = SoftPromptModule(
        policy,
        beta=settings.beta,
        learning_rate=settings.learning_rate,
        steps=epochs * math.ceil(batches / settings.accumulate),
        weight_decay=settings.weight_decay,
        warmup_fraction=settings.warmup_fraction,
    )
    model = policy.network.model
    if settings.gradient_checkpointing:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a name that goes in transformers 6
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    try:
        fit(
            module,
            data,
            settings=trainer,
            epochs=epochs,
            accumulate=settings.accumulate,
            seed=seed,
            folder=folder,
            every_n_steps=settings.every_n_steps,
            callbacks=[_SeededSteps(seed), *([AlignmentCallback(probe)] if probe is not None else [])],
            validates=validates,
            log=log,
        )
    finally:
        if settings.gradient_checkpointing:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                model.gradient_checkpointing_disable()
        model.eval()


def _nothing(_: dict[str, float]) -> None:
    """Keep no figures."""


class _Plain:
    def __call__(self, prompt: Sequence[int], _: int) -> list[int]:
        """Return the prompt as it is, without soft tokens."""
        return list(prompt)


class _SeededSteps(Callback):
    """Seeds dropout anew at every batch, so that a fit continued in the middle of an epoch goes on bit for bit."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        torch.manual_seed(derived_seed(self._seed, "dropout", trainer.current_epoch, batch_idx, trainer.global_rank))


def _require_device(policy: SoftPromptPolicy, trainer: TrainerSettings) -> None:
    mine, theirs = str(policy.network.device).partition(":")[0], inference_device(trainer.accelerator).type
    if mine != theirs:
        raise ConfigError(
            f"trainer.accelerator={trainer.accelerator} trains on {theirs}, and the model is on {mine}; "
            "set trainer=gpu or trainer=cpu, or model.device, to one device"
        )
