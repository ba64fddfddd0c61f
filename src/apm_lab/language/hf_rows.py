"""Token sequences side by side, with what a model remembers of each: rows can be shared, taken out and put in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers.cache_utils import Cache, DynamicLayer

if TYPE_CHECKING:
    from apm_lab.language.hf_body import Reads

__all__ = ["RowLayer", "Rows"]


class RowLayer(DynamicLayer):
    """Keys and values of one layer in a buffer with room to spare, so that a further token copies nothing."""

    def __init__(self, keys: torch.Tensor | None = None, values: torch.Tensor | None = None, length: int = 0) -> None:
        super().__init__()
        self.keys, self.values, self.length = keys, values, length
        self.is_initialized = keys is not None

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: object,
        **kwargs: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put further columns behind those that are there and return all, (B, heads, L, d)."""
        end = self.length + key_states.shape[-2]
        self.keys, self.values = (
            self._with_room(self.keys, key_states, end),
            self._with_room(self.values, value_states, end),
        )
        self.is_initialized = True
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def picked(self, index: torch.Tensor, columns: slice, room: int) -> RowLayer:
        """Return a layer with copies of these rows' columns and room for more."""
        length = columns.stop - columns.start
        parts = []
        for part in (self.keys, self.values):
            assert part is not None
            copy = part.new_empty((len(index), part.shape[1], length + room, part.shape[3]))
            copy[:, :, :length] = part[:, :, columns].index_select(0, index)
            parts.append(copy)
        return RowLayer(parts[0], parts[1], length)

    def get_seq_length(self) -> int:
        """Return the number of columns in use."""
        return self.length

    def _with_room(self, buffer: torch.Tensor | None, like: torch.Tensor, columns: int) -> torch.Tensor:
        if buffer is not None and buffer.shape[2] >= columns:
            return buffer
        room = like.new_zeros((like.shape[0], like.shape[1], columns + max(32, columns // 4), like.shape[3]))
        if buffer is not None:
            room[:, :, : self.length] = buffer[:, :, : self.length]
        return room


class Rows:
    """Several token sequences side by side, with what the model remembers of each.

    Columns are shared: a row that is shorter has columns that are masked. `seen` (B,) counts a row's own tokens.
    """

    def __init__(self, network: Reads, count: int) -> None:
        self._network, self.count, self.length = network, count, 0
        self._cache = network.cache()
        self._mask = torch.zeros((count, 0), dtype=torch.bool, device=network.device)
        self.seen = torch.zeros(count, dtype=torch.long, device=network.device)

    @torch.inference_mode()
    def extend(self, segments: Sequence[Sequence[int]], right: bool = False) -> torch.Tensor:
        """Append one segment per row and return the hidden states (B, T, H) of its tokens, T the longest.

        Shorter ones stand at the left; with `right` at the right, so that all rows end in the last column.
        """
        T = max(map(len, segments))
        ids, real = [], []
        for segment in segments:
            padding = [0] * (T - len(segment))
            ids.append([*padding, *segment] if right else [*segment, *padding])
            marks = [True] * len(segment)
            real.append([*map(bool, padding), *marks] if right else [*marks, *map(bool, padding)])
        device = self._network.device
        return self.append(torch.tensor(ids, device=device), torch.tensor(real, device=device))

    @torch.inference_mode()
    def append(self, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Append tokens (B, T), of which `real` (B, T) count, and return their hidden states (B, T, H)."""
        positions = (self.seen[:, None] + real.long().cumsum(1) - 1).clamp(min=0)
        self._mask = torch.cat([self._mask, real], dim=1)
        hidden = self._network.hidden(ids, self._mask, positions, self._cache)
        self.seen = self.seen + real.sum(1)
        self.length += ids.shape[1]
        return hidden

    @torch.inference_mode()
    def picked(self, rows: Sequence[int], room: int = 0) -> Rows:
        """Return copies of these rows, in this order, with room for further columns; a row may be taken repeatedly."""
        index = torch.tensor(rows, device=self._network.device)
        other = Rows(self._network, len(rows))
        columns = slice(self._unused(index), self.length)
        other.length = columns.stop - columns.start
        other._mask, other.seen = self._mask[index, columns], self.seen[index]
        if self.length:
            layers = [layer.picked(index, columns, room) for layer in self._cache.layers]
            other._cache = Cache(layers=layers)
        return other

    @torch.inference_mode()
    def put(self, places: Sequence[int], fresh: Rows) -> None:
        """Let the rows at `places` be the first rows of `fresh`, whose last column becomes this one's last."""
        if fresh.length > self.length:
            self._widen(fresh.length - self.length)
        index, count = torch.tensor(places, device=self._network.device), len(places)
        start = self.length - fresh.length
        for layer, other in zip(self._cache.layers, fresh._cache.layers, strict=True):
            layer.keys[index, :, start : self.length] = other.keys[:count, :, : fresh.length]
            layer.values[index, :, start : self.length] = other.values[:count, :, : fresh.length]
        self._mask[index] = False
        self._mask[index, start:] = fresh._mask[:count]
        self.seen[index] = fresh.seen[:count]

    def _widen(self, columns: int) -> None:
        """Put masked columns before all others."""
        for layer in self._cache.layers:
            for name in ("keys", "values"):
                part = getattr(layer, name)
                room = part.new_zeros((*part.shape[:2], part.shape[2] + columns, part.shape[3]))
                room[:, :, columns : columns + self.length] = part[:, :, : self.length]
                setattr(layer, name, room)
            layer.length += columns
        self._mask = torch.cat([self._mask.new_zeros((self.count, columns)), self._mask], dim=1)
        self.length += columns

    def _unused(self, index: torch.Tensor) -> int:
        """Return how many of the first columns none of these rows uses."""
        used = self._mask[index].any(0)
        return int(used.int().argmax()) if bool(used.any()) else 0
