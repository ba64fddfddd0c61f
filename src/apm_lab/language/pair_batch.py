"""Preference pairs as tensors: a prompt and its two answers in one row, so that the prompt is read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["EncodedPair", "PairBatch", "on_device", "pair_batch"]


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """One preference pair as tokens; the answers end with the token that ends a turn.

    `user` is the place of the user's embedding; `reference` the reference model's log-probabilities of both answers.
    """

    prompt: tuple[int, ...]
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    user: int
    reference: tuple[float, float] = (0.0, 0.0)

    @property
    def length(self) -> int:
        """How many tokens it has, the prompt counted once."""
        return len(self.prompt) + len(self.chosen) + len(self.rejected)


class PairBatch(TypedDict):
    """B pairs. Rows are pairs where the prompt is shared, else the chosen answers' and then the rejected ones'.

    `ids` (R, L), negative for soft tokens; `positions` (R, L); `mask` (R, 1, L, L) or (R, L); `rows`, `columns` (n,):
    the states that foretell the answers' tokens `targets` (n,), of answer `sequences` (n,), 0..B-1 the chosen ones and
    B..2B-1 the rejected ones; `embeddings` (B, E); `reference` (2, B).
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    rows: Tensor
    columns: Tensor
    targets: Tensor
    sequences: Tensor
    embeddings: Tensor
    reference: Tensor


def pair_batch(
    pairs: Sequence[EncodedPair],
    embeddings: NDArray[np.float32],
    with_soft: Callable[[Sequence[int], int], list[int]],
    *,
    shared: bool,
    left: bool = False,
) -> PairBatch:
    """Return the batch of `pairs`, whose users' embeddings are rows of `embeddings` (U, E).

    `with_soft` puts the ids of the soft tokens into a prompt. `shared`: both answers stand behind one prompt, and
    neither sees the other. `left`: rows that are not shared are padded at the left.
    """
    prompts = [with_soft(pair.prompt, place) for place, pair in enumerate(pairs)]
    answers = [[pair.chosen for pair in pairs], [pair.rejected for pair in pairs]]
    if shared:
        rows = [_Row([prompt, *both]) for prompt, *both in zip(prompts, *answers, strict=True)]
    else:
        rows = [_Row([prompt, answer]) for side in answers for prompt, answer in zip(prompts, side, strict=True)]
    width = max(len(row.ids) for row in rows)
    shifts = [width - len(row.ids) if left and not shared else 0 for row in rows]
    ids, positions = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    part = np.full((len(rows), width), -1, np.int64)  # 0 prompt, 1 and 2 the answers, -1 padding
    for at, (row, shift) in enumerate(zip(rows, shifts, strict=True)):
        columns = slice(shift, shift + len(row.ids))
        ids[at, columns], positions[at, columns], part[at, columns] = row.ids, row.positions, row.parts
    told = [row.foretelling(at, shift) for at, (row, shift) in enumerate(zip(rows, shifts, strict=True))]
    place, column, target, answer = (np.concatenate(values) for values in zip(*told, strict=True))
    sequence = place + answer * len(pairs) if shared else place
    return PairBatch(
        ids=torch.from_numpy(ids),
        positions=torch.from_numpy(positions),
        mask=_sight(torch.from_numpy(part)) if shared else torch.from_numpy((part >= 0).astype(np.int64)),
        rows=torch.from_numpy(place),
        columns=torch.from_numpy(column),
        targets=torch.from_numpy(target),
        sequences=torch.from_numpy(sequence),
        embeddings=torch.from_numpy(embeddings[[pair.user for pair in pairs]]),
        reference=torch.tensor([pair.reference for pair in pairs], dtype=torch.float32).T,
    )


def on_device(batch: PairBatch, device: torch.device | str) -> PairBatch:
    """Return the batch on `device`."""
    moved: dict[str, Tensor] = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}  # type: ignore[attr-defined]
    return cast("PairBatch", moved)


class _Row:
    """A prompt and one or two answers behind it, each of which goes on from the prompt's last position."""

    def __init__(self, parts: Sequence[Sequence[int]]) -> None:
        prompt, *answers = parts
        self.ids = np.concatenate([np.asarray(part, np.int64) for part in parts])
        start = len(prompt)
        self.positions = np.concatenate([np.arange(start), *(start + np.arange(len(answer)) for answer in answers)])
        self.parts = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self._prompt, self._answers = start, [np.asarray(answer, np.int64) for answer in answers]

    def foretelling(self, row: int, shift: int) -> tuple[NDArray[np.int64], ...]:
        """Return row, column, target and answer number (n,) of every answer token; each column foretells the next."""
        columns, begin = [], self._prompt
        for answer in self._answers:
            columns.append(np.concatenate([[self._prompt - 1], begin + np.arange(len(answer) - 1)]))
            begin += len(answer)
        targets = np.concatenate(self._answers)
        numbers = np.repeat(np.arange(len(self._answers)), [len(answer) for answer in self._answers])
        return np.full(len(targets), row), np.concatenate(columns).astype(np.int64) + shift, targets, numbers


def _sight(part: Tensor) -> Tensor:
    """Return which column sees which (R, 1, L, L): those before it of the prompt and of its own answer."""
    columns = torch.arange(part.shape[1])
    before = columns[:, None] >= columns
    alike = (part[:, :, None] == part[:, None, :]) | (part[:, None, :] == 0)
    return (before & alike)[:, None]
