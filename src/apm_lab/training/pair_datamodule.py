"""Preference pairs for training: batches of about the same length, continued in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray

from apm_lab.language.pair_batch import EncodedPair, PairBatch, on_device, pair_batch
from apm_lab.training.history_datamodule import LengthBucketSampler

__all__ = ["PairBatches", "PairDataModule"]


class PairBatches:
    """The batches of an epoch; its state is how many of them were given, and an iteration goes on from there."""

    def __init__(self, sampler: LengthBucketSampler, make: Callable[[Sequence[int]], PairBatch]) -> None:
        self.sampler, self._make, self._given, self._start = sampler, make, 0, 0

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


class PairDataModule(LightningDataModule):
    """Loads `pairs`, whose users' embeddings are rows of `embeddings` (U, E), shuffled anew every epoch.

    `with_soft` puts the ids of the soft tokens into a prompt, `shared` says that both answers may stand behind it.
    """

    def __init__(
        self,
        pairs: Sequence[EncodedPair],
        embeddings: NDArray[np.float32],
        with_soft: Callable[[Sequence[int], int], list[int]],
        *,
        batch_size: int,
        seed: int,
        shared: bool,
    ) -> None:
        super().__init__()
        self._pairs, self._embeddings, self._with_soft = pairs, embeddings, with_soft
        self._batch_size, self._seed, self._shared = batch_size, seed, shared

    def train_dataloader(self) -> PairBatches:
        """Return the batches of this process."""
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        lengths = [pair.length for pair in self._pairs]
        sampler = LengthBucketSampler(lengths, self._batch_size, seed=self._seed, rank=rank, world=world)
        return PairBatches(sampler, self._batch)

    def transfer_batch_to_device(self, batch: PairBatch, device: torch.device, dataloader_idx: int) -> PairBatch:
        """Return the batch on `device`."""
        return on_device(batch, device)

    def _batch(self, rows: Sequence[int]) -> PairBatch:
        return pair_batch([self._pairs[row] for row in rows], self._embeddings, self._with_soft, shared=self._shared)
