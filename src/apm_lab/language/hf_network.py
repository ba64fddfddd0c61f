"""A causal language model taken apart: hidden states from its body, logits only where they are wanted."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from apm_lab.errors import ConfigError
from apm_lab.maths.dpo import token_log_probs

__all__ = ["Network", "Rows"]

_SCALINGS = ("logit_scale", "logits_scaling", "final_logit_softcapping")


class Network:
    """The body and the head of a transformers model.

    Logits for all positions of a batch are never made: V is large. A head that is more than a linear layer and the
    scalings known here is refused, since its figures would be wrong.
    """

    def __init__(self, model: Any, device: str) -> None:  # noqa: ANN401
        self.model, self.device = model, device
        self._body, self._head = model.base_model, model.get_output_embeddings()
        self._soft: torch.Tensor | None = None
        self._config = model.config.get_text_config()
        takes = inspect.signature(type(self._body).forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        layers = DynamicCache(config=self._config).layers
        self._layers = len(layers)
        # Recurrent layers keep a state instead of columns: their rows can't be shared, taken out or put in.
        self.plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        sliding = any(isinstance(layer, DynamicSlidingWindowLayer) for layer in layers)
        self.window: int | None = getattr(self._config, "sliding_window", None) if sliding else None
        self._require_known_head(model)

    @property
    def context(self) -> int | None:
        """The most positions the model knows."""
        return getattr(self._config, "max_position_embeddings", None)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, V, that the head has a logit for."""
        return int(self._head.weight.shape[0])

    def cache(self) -> Cache:
        """Return an empty cache that fits the model."""
        if self.plain:
            return Cache(layers=[_RowLayer() for _ in range(self._layers)])
        return DynamicCache(config=self._config)

    def hidden(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache | None
    ) -> torch.Tensor:
        """Return the last hidden states (B, T, H) of tokens (B, T); `mask` (B, L + T) says which columns are real."""
        given = {self._cache_name: cache} if cache is not None else {}
        if self._soft is None:
            given["input_ids"] = ids
        else:
            given["inputs_embeds"] = self.embedded(ids, self._soft)
        out = self._body(attention_mask=mask, position_ids=positions, use_cache=cache is not None, **given)
        state: torch.Tensor = out.last_hidden_state
        return state

    def embedded(self, ids: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
        """Return the embeddings (B, T, H) of tokens (B, T), in which id `-1 - i` stands for the vector `soft[i]`."""
        vectors: torch.Tensor = self.model.get_input_embeddings()(ids.clamp(min=0))
        places = (ids < 0).nonzero(as_tuple=True)
        return vectors.index_put(places, soft[-1 - ids[places]].to(vectors.dtype))

    @contextmanager
    def prefixed(self, soft: torch.Tensor | None) -> Iterator[None]:
        """Let negative ids stand for vectors of `soft` (n, H) inside, as `embedded` has it."""
        self._soft = soft
        try:
            yield
        finally:
            self._soft = None

    def states(self, vectors: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states (B, T, H) of embeddings (B, T, H), differentiable by them.

        `mask`: (B, T), which columns are real, or (B, 1, T, T), which column sees which.
        """
        out = self._body(inputs_embeds=vectors, attention_mask=mask, position_ids=positions, use_cache=False)
        state: torch.Tensor = out.last_hidden_state
        return state

    def log_probs(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the log-probability (n,) of each target after its hidden state (n, H), differentiable by those."""
        if self._head.bias is None and not any(getattr(self._config, name, None) for name in _SCALINGS):
            return token_log_probs(hidden, self._head.weight, targets)
        return torch.log_softmax(self.logits(hidden), dim=1).gather(1, targets[:, None])[:, 0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return logits (n, V) in float32 of hidden states (n, H)."""
        # A slice that is not contiguous makes the head 4 to 8 times slower on a processor.
        logits: torch.Tensor = self._head(hidden.contiguous()).float()
        if scale := getattr(self._config, "logit_scale", None):
            logits = logits * scale
        if scale := getattr(self._config, "logits_scaling", None):
            logits = logits / scale
        if cap := getattr(self._config, "final_logit_softcapping", None):
            logits = torch.tanh(logits / cap) * cap
        return logits

    def _require_known_head(self, model: Any) -> None:  # noqa: ANN401
        unknown = ConfigError(
            f"{type(model).__name__} makes its logits in a way that is not known here; serve it (vLLM, any "
            "OpenAI-compatible server) and use the backend for that"
        )
        if not isinstance(self._head, torch.nn.Linear):
            raise unknown
        ids = torch.tensor([[1, 2, 3]], device=self.device) % self._config.vocab_size
        with torch.inference_mode():
            told = model(input_ids=ids, use_cache=False).logits[0].float()
            hidden = self.hidden(ids, torch.ones_like(ids), torch.arange(3, device=self.device)[None], None)[0]
            ours = self.logits(hidden)
        if not torch.allclose(told, ours, rtol=0.02, atol=0.02 * float(told.abs().max())):
            raise unknown


class _RowLayer(DynamicLayer):
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

    def picked(self, index: torch.Tensor, columns: slice, room: int) -> _RowLayer:
        """Return a layer with copies of these rows' columns and room for more."""
        length = columns.stop - columns.start
        parts = []
        for part in (self.keys, self.values):
            assert part is not None
            copy = part.new_empty((len(index), part.shape[1], length + room, part.shape[3]))
            copy[:, :, :length] = part[:, :, columns].index_select(0, index)
            parts.append(copy)
        return _RowLayer(parts[0], parts[1], length)

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

    def __init__(self, network: Network, count: int) -> None:
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
