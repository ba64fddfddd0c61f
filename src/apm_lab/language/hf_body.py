"""A decoder without its head: hidden states of tokens, and what it remembers of those that came before."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from apm_lab.language.hf_rows import RowLayer

__all__ = ["Body", "Reads"]


class Reads(Protocol):
    """What gives hidden states of token sequences that share what is remembered: a `Body`, or a `Network` round it."""

    device: str

    @property
    def plain(self) -> bool:
        """Whether each token is remembered in a column of its own, so that rows can be shared."""
        ...

    @property
    def window(self) -> int | None:
        """How many columns some layers look back; None for all."""
        ...

    def cache(self) -> Cache:
        """Return an empty cache that fits the model."""
        ...

    def hidden(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache | None
    ) -> torch.Tensor:
        """Return the last hidden states (B, T, H) of tokens (B, T); `mask` (B, L + T) says which columns are real."""
        ...


class Body:
    """The body of a transformers decoder, with its configuration."""

    def __init__(self, module: Any, config: Any, device: str) -> None:  # noqa: ANN401
        self.module, self.device = module, device
        self._soft: torch.Tensor | None = None
        self._config = config.get_text_config()
        takes = inspect.signature(type(module).forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        layers = DynamicCache(config=self._config).layers
        self._layers = len(layers)
        # Recurrent layers keep a state instead of columns: their rows can't be shared, taken out or put in.
        self.plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        sliding = any(isinstance(layer, DynamicSlidingWindowLayer) for layer in layers)
        self.window: int | None = getattr(self._config, "sliding_window", None) if sliding else None

    @property
    def context(self) -> int | None:
        """The most positions the model knows."""
        return getattr(self._config, "max_position_embeddings", None)

    def cache(self) -> Cache:
        """Return an empty cache that fits the model."""
        if self.plain:
            return Cache(layers=[RowLayer() for _ in range(self._layers)])
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
        out = self.module(attention_mask=mask, position_ids=positions, use_cache=cache is not None, **given)
        state: torch.Tensor = out.last_hidden_state
        return state

    def embedded(self, ids: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
        """Return the embeddings (B, T, H) of tokens (B, T), in which id `-1 - i` stands for the vector `soft[i]`."""
        vectors: torch.Tensor = self.module.get_input_embeddings()(ids.clamp(min=0))
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
        out = self.module(inputs_embeds=vectors, attention_mask=mask, position_ids=positions, use_cache=False)
        state: torch.Tensor = out.last_hidden_state
        return state
