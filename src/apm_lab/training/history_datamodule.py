"""Batches of tokenised histories: bucketed by length, reshuffled every epoch, padded to the batch's longest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from apm_lab.errors import ConfigError
from apm_lab.maths.seeding import stream

__all__ = ["HistoryDataModule", "HistoryDataset", "LengthBucketSampler", "Split", "pad"]

Batch = dict[str, Tensor]

_BATCHES_PER_BUCKET, _WHERE_PADDING_IS_FREE = 16, 1
"""Batches cut from one sorted bucket: more pads less, fewer mixes lengths better; of one batch they are random.

Batches of like length cost 2 to 3% of training loss (docs/router.md); `modernbert_pass` computes no padding.
"""


@dataclass(frozen=True, slots=True)
class Split:
    """U token id lists and their `targets`, (U,) labels or (U, S) ratings."""

    tokens: Sequence[Sequence[int]]
    targets: NDArray[np.generic]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.targets):
            raise ValueError(f"{len(self.tokens)} token lists, {len(self.targets)} targets")


class LengthBucketSampler(Sampler[list[int]]):
    """Yields lists of indices of similar length; every index exactly once an epoch, over all processes together.

    Order and membership depend on `(seed, epoch)` alone, never on a global generator, so every process computes the
    same list of batches and takes every `world`-th whole batch. The number of batches is a multiple of `world` (no
    process waits for another at the end of an epoch) and their sizes differ by at most one, so that nothing is
    repeated or dropped. With `shuffle=False` batches go from long to short.

    Raises ConfigError when there are fewer samples than processes.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        batches_per_bucket: int = _BATCHES_PER_BUCKET,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}, expected at least 1")
        if not 0 <= rank < world:
            raise ConfigError(f"process {rank} of {world} does not exist")
        if 0 < len(lengths) < world:
            raise ConfigError(f"{len(lengths)} histories can't be shared by {world} processes; use fewer devices")
        self._lengths = np.asarray(lengths, dtype=np.int64)
        self._seed, self._rank, self._world, self._shuffle = seed, rank, world, shuffle
        self._batches_per_bucket = batches_per_bucket
        self._batches = math.ceil(math.ceil(len(lengths) / batch_size) / world) * world
        self._epoch = 0

    @property
    def sampler(self) -> LengthBucketSampler:
        """The sampler itself: Lightning looks for `set_epoch` on a batch sampler's `sampler`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches the next iteration gives."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches this process gets in an epoch."""
        return self._batches // self._world

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._all_batches()[self._rank :: self._world]:
            yield batch.tolist()

    def _all_batches(self) -> list[NDArray[np.int64]]:
        if not len(self._lengths):
            return []
        if not self._shuffle:
            return self._cut(np.argsort(-self._lengths, kind="stable"), self._batches)
        rng = stream(self._seed, "batches", self._epoch)
        order = rng.permutation(len(self._lengths))
        # Buckets are drawn at random and sorted inside, so a sample meets other neighbours every epoch.
        buckets = math.ceil(self._batches / self._batches_per_bucket)
        share = self._cut(np.arange(self._batches), buckets)
        starts = self._cut(order, self._batches)
        batches: list[NDArray[np.int64]] = []
        for numbers in share:
            members = np.concatenate([starts[number] for number in numbers])
            batches += self._cut(members[np.argsort(self._lengths[members], kind="stable")], len(numbers))
        return [batches[number] for number in rng.permutation(self._batches)]

    @staticmethod
    def _cut(values: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
        return np.array_split(values, parts)


class HistoryDataset(Dataset[tuple[int, Sequence[int], Tensor | None]]):
    """Samples `(index, token ids, target or None)`."""

    def __init__(self, tokens: Sequence[Sequence[int]], targets: Tensor | None = None) -> None:
        self._tokens, self._targets = tokens, targets

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> tuple[int, Sequence[int], Tensor | None]:
        return index, self._tokens[index], None if self._targets is None else self._targets[index]


def pad(samples: Sequence[tuple[int, Sequence[int], Tensor | None]], pad_id: int) -> Batch:
    """Return `index` (B,), `input_ids` and `attention_mask` (B, T) with T the longest sample, and `targets` if any."""
    width = max(len(tokens) for _, tokens, _ in samples)
    ids = np.full((len(samples), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(samples), width), dtype=np.int64)
    for row, (_, tokens, _) in enumerate(samples):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    batch = {
        "index": torch.tensor([index for index, _, _ in samples]),
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(mask),
    }
    targets = [target for _, _, target in samples if target is not None]
    if targets:
        batch["targets"] = torch.stack(targets)
    return batch


@dataclass(frozen=True)
class _Collate:
    """`pad` with its pad id; a class, since processes that are spawned must pickle it."""

    pad_id: int

    def __call__(self, samples: Sequence[tuple[int, Sequence[int], Tensor | None]]) -> Batch:
        return pad(samples, self.pad_id)


class HistoryDataModule(LightningDataModule):
    """Loaders of a training and, where given, a validation split; nothing is dropped.

    `objective` decides the targets' type: labels become int64, ratings float32. `padding_is_free`: the model computes
    none, so batches are drawn at random.
    """

    def __init__(
        self,
        training: Split,
        validation: Split | None = None,
        *,
        batch_size: int,
        pad_id: int,
        seed: int,
        objective: Literal["classification", "regression"] = "classification",
        padding_is_free: bool = False,
    ) -> None:
        super().__init__()
        self._batches_per_bucket = _WHERE_PADDING_IS_FREE if padding_is_free else _BATCHES_PER_BUCKET
        self._training, self._validation = training, validation
        self._batch_size, self._pad_id, self._seed = batch_size, pad_id, seed
        self._dtype = torch.long if objective == "classification" else torch.float32

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return shuffled batches, other ones every epoch."""
        return self._loader(self._training, shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        """Return the validation batches, or no loader at all without a validation split."""
        return [] if self._validation is None else self._loader(self._validation, shuffle=False)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Return the batch on `device`; Lightning's own way looks for tensors in every kind of collection first."""
        return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}

    def _loader(self, split: Split, *, shuffle: bool) -> DataLoader[Batch]:
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        sampler = LengthBucketSampler(
            [len(tokens) for tokens in split.tokens],
            self._batch_size,
            seed=self._seed,
            rank=rank,
            world=world,
            shuffle=shuffle,
            batches_per_bucket=self._batches_per_bucket,
        )
        return DataLoader(
            HistoryDataset(split.tokens, torch.as_tensor(split.targets).to(self._dtype)),
            batch_sampler=sampler,
            collate_fn=_Collate(self._pad_id),
            # A loader draws a seed for its workers even when it has none: not from the global generator.
            generator=torch.Generator().manual_seed(0),
        )
