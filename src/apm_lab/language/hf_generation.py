"""Answers token by token for many chats at once: a row whose answer is finished makes room for the next chat."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random

import torch

from apm_lab.language.hf_network import Network
from apm_lab.language.hf_rows import Rows
from apm_lab.language.hf_sampling import Sampling, next_tokens

__all__ = ["Written", "written_answers"]

Written = tuple[int, list[int]]
"""A chat's place and the tokens of its answer, without the one that ends it."""

_COLUMNS = 1024  # a row's share of the memory: fewer rows where chats are longer


def written_answers(
    network: Network,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[bytes],
    sampling: Sampling,
    ends: frozenset[int],
    batch_size: int,
) -> Iterator[list[Written]]:
    """Yield the answers to prompts (token lists) in groups as they are finished, longest prompts first.

    `seeds` give each prompt a random stream of its own, `ends` are the tokens that end an answer, `batch_size` the
    rows at once.
    """
    waiting = deque(sorted(range(len(prompts)), key=lambda place: -len(prompts[place])))
    if not waiting:
        return
    longest = len(prompts[waiting[0]]) + sampling.max_tokens
    size = max(1, min(batch_size, batch_size * _COLUMNS // longest, len(prompts)))
    batch = _Batch(network, prompts, seeds, sampling, ends)
    enough = max(1, size // 4)  # rows that are read, stored or given up together
    while waiting or batch.active:
        free = size - batch.active
        if waiting and (not batch.active or (network.plain and free >= enough)):
            batch.start([waiting.popleft() for _ in range(min(free, len(waiting)))])
        elif network.plain and 2 * batch.active <= batch.rows:
            batch.shrink()
        if batch.active:
            batch.step()
        if len(batch.finished) >= enough or (batch.finished and not batch.active):
            yield batch.taken()


class _Batch:
    """The rows that are being written now."""

    def __init__(
        self,
        network: Network,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[bytes],
        sampling: Sampling,
        ends: frozenset[int],
    ) -> None:
        self._network, self._prompts, self._seeds = network, prompts, seeds
        self._sampling, self._ends = sampling, ends
        self._state: Rows | None = None
        self._places: list[int | None] = []  # whose each row is; None for a row that is free
        self._texts: list[list[int]] = []
        self._streams: list[Random] = []
        self._seen: torch.Tensor | None = None
        self.finished: list[Written] = []

    @property
    def rows(self) -> int:
        """The number of rows computed, free ones among them."""
        return len(self._places)

    @property
    def active(self) -> int:
        """The number of rows whose answer is not finished."""
        return sum(place is not None for place in self._places)

    def taken(self) -> list[Written]:
        """Return the finished answers and forget them."""
        finished, self.finished = self.finished, []
        return finished

    def start(self, places: Sequence[int]) -> None:
        """Read the prompts at `places` into free rows, or into new ones, and write their first tokens."""
        fresh = Rows(self._network, len(places))
        hidden = fresh.extend([self._prompts[place] for place in places], right=True)[:, -1]
        if not self.active:
            self._state, rows = fresh, list(range(len(places)))
            self._places, self._texts, self._streams = [None] * len(rows), [[]] * len(rows), [Random()] * len(rows)
            self._seen = None
        else:
            rows = self._room(len(places))
            assert self._state is not None
            self._state.put(rows, fresh)
        for row, place in zip(rows, places, strict=True):
            self._places[row], self._texts[row] = place, []
            self._streams[row] = Random(self._seeds[place])
        self._mark(rows)
        self._write(rows, hidden)

    def _room(self, count: int) -> list[int]:
        """Return free rows, with unused columns given up and rows added where there are too few."""
        assert self._state is not None
        alive = [row for row, place in enumerate(self._places) if place is not None]
        self._keep(alive + alive[:1] * count)  # what a new row holds is written over
        for row in range(len(alive), len(self._places)):
            self._places[row] = None
        return list(range(len(alive), len(self._places)))

    def shrink(self) -> None:
        """Give up the rows that are free."""
        self._keep([row for row, place in enumerate(self._places) if place is not None])

    def _keep(self, rows: list[int]) -> None:
        assert self._state is not None
        self._state = self._state.picked(rows, room=32)
        self._places, self._texts = [self._places[row] for row in rows], [self._texts[row] for row in rows]
        self._streams = [self._streams[row] for row in rows]
        if self._seen is not None:
            self._seen = self._seen[rows]

    def step(self) -> None:
        """Write one more token of every row."""
        assert self._state is not None
        last = [text[-1] if text else 0 for text in self._texts]
        ids = torch.tensor(last, device=self._network.device)[:, None]
        hidden = self._state.append(ids, torch.ones_like(ids, dtype=torch.bool))[:, -1]
        rows = [row for row, place in enumerate(self._places) if place is not None]
        self._write(rows, hidden[rows] if len(rows) < len(self._places) else hidden)

    @torch.inference_mode()
    def _write(self, rows: Sequence[int], hidden: torch.Tensor) -> None:
        logits = self._network.logits(hidden)
        seen = None if self._seen is None else self._seen[list(rows)]
        tokens = next_tokens(logits, self._sampling, [self._streams[row] for row in rows], seen)
        for row, token in zip(rows, tokens, strict=True):
            place = self._places[row]
            assert place is not None
            if token not in self._ends:
                self._texts[row].append(token)
                if self._seen is not None:
                    self._seen[row, token] = True
            if token in self._ends or len(self._texts[row]) == self._sampling.max_tokens:
                self.finished.append((place, self._texts[row]))
                self._places[row] = None

    def _mark(self, rows: Sequence[int]) -> None:
        """Note the tokens of new rows' prompts, where repetition is held down."""
        if self._sampling.repetition_penalty == 1:
            return
        if self._seen is None:
            self._seen = torch.zeros(
                (len(self._places), self._network.vocabulary), dtype=torch.bool, device=self._network.device
            )
        for row in rows:
            self._seen[row] = False
            place = self._places[row]
            assert place is not None
            tokens = [
                token for token in self._prompts[place] if token >= 0
            ]  # others stand for vectors of a soft prompt
            self._seen[row, torch.tensor(tokens, device=self._network.device)] = True
