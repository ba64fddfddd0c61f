"""One fit of a router module, with what it says of held-out users on the way."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Callback

from apm_lab.training.callbacks.alignment import AlignmentCallback
from apm_lab.training.callbacks.judging import JudgingCallback
from apm_lab.training.callbacks.scoring import ScoringCallback
from apm_lab.training.fit import Log, fit
from apm_lab.training.history_datamodule import HistoryDataModule
from apm_lab.training.router_module import RouterModule
from apm_lab.training.trainer_settings import TrainerSettings
from apm_lab.training.validation_set import ValidationSet

__all__ = ["train_router"]


def train_router(
    module: RouterModule,
    data: HistoryDataModule,
    *,
    settings: TrainerSettings,
    epochs: int,
    accumulate: int,
    seed: int,
    identity: str,
    validation: ValidationSet | None = None,
    log: Log | None = None,
    alignment: AlignmentCallback | None = None,
) -> None:
    """Train `module` in place; call it inside `isolation.isolated`.

    With a checkpoint folder, the state after every epoch is kept under `identity` until the fit is done, and a fit of
    the same identity that was interrupted goes on from there. Where the strategy starts processes of its own, `log`
    is called after the fit, and `validation.respond` must be picklable.
    """
    callbacks: list[Callback] = [] if alignment is None else [alignment]
    if validation is not None:
        callbacks.append(ScoringCallback(validation))
        if validation.respond is not None:
            callbacks.append(JudgingCallback(validation.respond))
    fit(
        module,
        data,
        settings=settings,
        epochs=epochs,
        accumulate=accumulate,
        seed=seed,
        folder=None if settings.checkpoint_folder is None else Path(settings.checkpoint_folder) / identity,
        callbacks=callbacks,
        validates=validation is not None,
        log=log,
    )
