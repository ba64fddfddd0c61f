"""Preference pairs for training: batches of about the same length, continued in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray

from apm_lab.language.pair_batch import EncodedPair, PairBatch, on_device, pair_batch
from apm_lab.training.history_datamodule import LengthBucketSampler

__all__ = ["PairBatches", "PairDataModule", "Pairs"]


class PairBatches:
    """The batches of an epoch; its state is how many of them were given, and an iteration goes on from there."""

    def __init__(self, sampler: LengthBucketSampler, make: Callable[[Sequence[int]], PairBatch]) -> None:
        self.sampler, self._make, self._given, self._start = sampler, make, 0, 0
        self.batch_sampler = sampler  # Lightning looks at one of either name

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[PairBatch]:
        self._given, self._start = self._start, 0
        for rows in list(self.sampler)[self._given :]:
            self._given += 1
            yield self._make(rows)

    def state_dict(self) -> dict[str, int]:
        """Return how many batches of this epoch were given."""
        return {"given": self._given % max(1, len(self))}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Let the next iteration leave out the batches that were given."""
        self._start = state["given"]


class Pairs(NamedTuple):
    """Pairs, whose users' embeddings are rows of `embeddings` (U, E)."""

    pairs: Sequence[EncodedPair]
    embeddings: NDArray[np.float32]


class PairDataModule(LightningDataModule):
    """Loads `training` pairs, shuffled anew every epoch, and those of held-out users where there are any.

    `with_soft` puts the ids of the soft tokens into a prompt, `shared` says that both answers may stand behind it.
    """

    def __init__(
        self,
        training: Pairs,
        held_out: Pairs | None,
        with_soft: Callable[[Sequence[int], int], list[int]],
        *,
        batch_size: int,
        seed: int,
        shared: bool,
    ) -> None:
        super().__init__()
        self._training, self._held_out, self._with_soft = training, held_out, with_soft
        self._batch_size, self._seed, self._shared = batch_size, seed, shared

    def train_dataloader(self) -> PairBatches:
        """Return the batches of this process."""
        return self._batches(self._training, shuffle=True)

    def val_dataloader(self) -> PairBatches | list[PairBatches]:
        """Return held-out users' batches, or no loader at all without any."""
        return [] if self._held_out is None else self._batches(self._held_out, shuffle=False)

    def transfer_batch_to_device(self, batch: PairBatch, device: torch.device, dataloader_idx: int) -> PairBatch:
        """Return the batch on `device`."""
        return on_device(batch, device)

    def _batches(self, those: Pairs, *, shuffle: bool) -> PairBatches:
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        lengths = [pair.length for pair in those.pairs]
        sampler = LengthBucketSampler(
            lengths, self._batch_size, seed=self._seed, rank=rank, world=world, shuffle=shuffle
        )
        return PairBatches(
            sampler,
            lambda rows: pair_batch(
                [those.pairs[row] for row in rows], those.embeddings, self._with_soft, shared=self._shared
            ),
        )
