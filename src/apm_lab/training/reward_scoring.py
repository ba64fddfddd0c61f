"""Rewards of any number of calls over devices and nodes, by Lightning's `predict`; what is done is in the store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import RewardCall, RewardModel
from apm_lab.language.stored_rewards import Rewards, StoredRewards
from apm_lab.training.isolation import isolated, settle
from apm_lab.training.trainer_settings import TrainerSettings

__all__ = ["RewardScoring"]

_CHUNK = 256  # calls that are read together: what they begin with in common is read once
_STAGE = Callable[[str, int, int], None]


class RewardScoring:
    """Rates calls: the store first, then the model over the trainer's devices.

    `store` and `settings` (its arguments): a process that the trainer starts opens the store for itself.
    """

    def __init__(
        self,
        model: RewardModel,
        store: Store,
        store_settings: dict[str, Any],
        counts: CallCounts,
        trainer: TrainerSettings,
        progress: _STAGE,
    ) -> None:
        self.stored = StoredRewards(model, store.scores, counts)
        self._counts, self._trainer, self._progress = counts, trainer, progress
        self._reopened = partial(_reopened, model, store_settings)

    def __call__(self, calls: Sequence[RewardCall], stage: str) -> list[Rewards]:
        """Return the rewards of each call's answers, in order, None where the model gave none."""
        left = self.stored.missing(calls)
        asked = sum(len(call.answers) for call in left)
        self._counts.asked += sum(len(call.answers) for call in calls) - asked  # the rest is counted when it is asked
        if left:
            chunks = [left[start : start + _CHUNK] for start in range(0, len(left), _CHUNK)]
            several = self._trainer.devices * self._trainer.num_nodes > 1
            opened = self._reopened if several else lambda: self.stored
            told = _silent if several else partial(self._progress, stage)  # which other processes can't call
            _predict(_Scoring(opened, chunks, self._trainer.threads, told), len(chunks), self._trainer)
            if several:  # counted in the processes that made them
                self._counts.asked += asked
                self._counts.made += asked
                self._progress(stage, len(chunks), len(chunks))
        return self._read(calls)

    def _read(self, calls: Sequence[RewardCall]) -> list[Rewards]:
        """Return what the store holds by now; what it lacks is what the model gave no number for."""
        keys = self.stored.keys(calls)
        held = self.stored.held([key for each in keys for key in each])
        return [tuple(held.get(key) for key in each) for each in keys]


class _Scoring(LightningModule):
    """Rates one chunk of calls a step; nothing is returned, since the store has it."""

    def __init__(
        self,
        opened: Callable[[], StoredRewards],
        chunks: Sequence[Sequence[RewardCall]],
        threads: int,
        progress: Callable[[int, int], None],
    ) -> None:
        super().__init__()
        self._opened, self._chunks, self._threads, self._told = opened, chunks, threads, progress
        self._done = 0
        self._rewards: StoredRewards | None = None

    def on_predict_start(self) -> None:
        settle(self._threads)
        self._rewards = self._opened()

    def predict_step(self, batch: Any, batch_idx: int) -> int:  # noqa: ANN401 (a list of one place)
        assert self._rewards is not None
        for place in batch:
            self._rewards.rewards(self._chunks[place])
        self._done += 1
        self._told(self._done, len(self._chunks))
        return self._done  # Lightning warns of a step that gives nothing


def _predict(module: LightningModule, chunks: int, settings: TrainerSettings) -> None:
    loader: DataLoader[int] = DataLoader(range(chunks), batch_size=None, collate_fn=_as_list)
    with isolated(seed=0, threads=settings.threads), tempfile.TemporaryDirectory() as scratch:
        try:
            trainer = Trainer(
                accelerator=settings.accelerator,
                devices=settings.devices,
                num_nodes=settings.num_nodes,
                strategy=settings.resolved_strategy,
                logger=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                enable_checkpointing=False,
                default_root_dir=scratch,
            )
        except (MisconfigurationException, ValueError) as fault:
            raise ConfigError(f"trainer: {' '.join(str(fault).split())}") from fault
        trainer.predict(module, loader, return_predictions=False)


def _as_list(place: int) -> list[int]:
    return [int(place)]


def _reopened(model: RewardModel, settings: dict[str, Any]) -> StoredRewards:
    return StoredRewards(model, Store(**settings).scores, CallCounts())


def _silent(_done: int, _total: int) -> None:
    """Report nothing."""
