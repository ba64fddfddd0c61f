"""One fit of a module by Lightning, without a trace beside what was asked for."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from apm_lab.errors import ConfigError
from apm_lab.maths.seeding import derived_seed
from apm_lab.training.isolation import settle
from apm_lab.training.tracker_logger import TrackerLogger
from apm_lab.training.trainer_settings import TrainerSettings

__all__ = ["Log", "fit"]

Log = Callable[[dict[str, float]], None]


class _Seeded(Callback):
    """Seeds dropout anew every epoch, so that a fit continued from an epoch's end goes on bit for bit.

    It also settles a process that the trainer has started, as `isolated` did its parent.
    """

    def __init__(self, seed: int, threads: int) -> None:
        self._seed, self._threads = seed, threads

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        settle(self._threads)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.manual_seed(derived_seed(self._seed, "dropout", trainer.current_epoch, trainer.global_rank))


class _Sink:
    """A tracker of one function: `log({..., "step": step})`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        self._log(metrics if step is None else {**metrics, "step": float(step)})


class _FileLog:
    """Keeps figures in a file: a process that was started can't call a function of its parent's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, figures: dict[str, float]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")

    def replay(self, log: Log) -> None:
        """Call `log` with all that was kept, in order."""
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                log(json.loads(line))


def _new_trainer(settings: TrainerSettings, **arguments: Any) -> Trainer:  # noqa: ANN401 (Lightning's own)
    """Return Lightning's trainer; ConfigError where this machine or Lightning doesn't have what the settings name."""
    try:
        return Trainer(**arguments, **_trainer_arguments(settings))
    except (MisconfigurationException, ValueError) as fault:
        raise ConfigError(f"trainer: {' '.join(str(fault).split())}") from fault


def fit(
    module: LightningModule,
    data: LightningDataModule,
    *,
    settings: TrainerSettings,
    epochs: int,
    accumulate: int,
    seed: int,
    folder: Path | None,
    every_n_steps: int | None = None,
    callbacks: Sequence[Callback] = (),
    validates: bool = False,
    log: Log | None = None,
) -> None:
    """Train `module` in place; call it inside `isolation.isolated`.

    With a `folder`, the state after every epoch, or every `every_n_steps` optimiser steps, is kept in it until the fit
    is done, and one that was interrupted goes on from there. Where the strategy starts processes of its own, `log` is
    called after the fit.
    """
    made: list[Callback] = [_Seeded(seed, settings.threads), *callbacks]
    if folder is not None:
        when = {"every_n_epochs": 1} if every_n_steps is None else {"every_n_train_steps": every_n_steps}
        made.append(ModelCheckpoint(dirpath=folder, filename="last", enable_version_counter=False, **when))
    with tempfile.TemporaryDirectory() as scratch:  # processes that are spawned hand their weights back through it
        far = _FileLog(Path(scratch) / "figures.jsonl") if settings.starts_processes else None
        trainer = _new_trainer(
            settings,
            max_epochs=epochs,
            accumulate_grad_batches=accumulate,
            callbacks=made,
            logger=False if log is None else TrackerLogger(_Sink(far or log)),
            limit_val_batches=None if validates else 0,
            enable_checkpointing=folder is not None,
            default_root_dir=scratch,
        )
        resumed = None if folder is None else _intact(folder / "last.ckpt")
        module.train()  # transformers hands out pretrained models in eval mode
        trainer.fit(module, datamodule=data, ckpt_path=resumed, weights_only=True if resumed else None)
        if far is not None and log is not None:
            far.replay(log)
    if folder is not None and trainer.is_global_zero:
        shutil.rmtree(folder, ignore_errors=True)


def _trainer_arguments(settings: TrainerSettings) -> dict[str, Any]:
    return {
        "accelerator": settings.accelerator,
        "devices": settings.devices,
        "num_nodes": settings.num_nodes,
        "strategy": settings.resolved_strategy,
        "precision": settings.precision,
        "deterministic": settings.deterministic,
        "gradient_clip_val": settings.gradient_clip,
        "enable_progress_bar": settings.progress_bar,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,  # LengthBucketSampler shards whole batches itself
        "log_every_n_steps": 1,
    }


def _intact(path: Path) -> Path | None:
    """Return `path` when it holds a whole trainer state; one that was cut off while being written is removed."""
    if not path.exists():
        return None
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError):
        path.unlink()
        return None
    return path
