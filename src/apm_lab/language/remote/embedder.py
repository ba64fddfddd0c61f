"""Vectors of texts from the embeddings of an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import EndpointError
from apm_lab.language.remote.client import answered
from apm_lab.language.remote.exchange import Exchange
from apm_lab.language.remote.fault import MalformedError
from apm_lab.language.remote.openai import Endpoint

__all__ = ["OpenAiEmbedder"]


class OpenAiEmbedder:
    """Encodes texts at an endpoint, `batch_size` to a request; the other values are those of `OpenAiModel`."""

    engine = "remote"

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key_env: str | None = "OPENAI_API_KEY",
        revision: str | None = None,
        batch_size: int = 32,
        concurrency: int = 16,
        timeout_s: float = 120.0,
    ) -> None:
        self.endpoint = Endpoint(base_url, api_key_env, concurrency, timeout_s)
        self._model, self._batch_size = model, batch_size
        self.identity = f"{model}@{revision}" if revision else model

    def ready(self) -> None:
        """Return nothing where the key is set; ConfigError names the variable."""
        self.endpoint.key()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, (n, H), as the endpoint gives them; (0, 0) for none."""
        parts = [texts[start : start + self._batch_size] for start in range(0, len(texts), self._batch_size)]
        vectors: dict[int, NDArray[np.float32]] = {}
        for group in answered(self.endpoint.access(self._model), parts, self._vectors):
            vectors |= group
        widths = {part.shape[1] for part in vectors.values()}
        if len(widths) > 1:
            raise EndpointError(f"{self.identity} gave vectors of different lengths: {sorted(widths)}")
        return (
            np.concatenate([vectors[place] for place in range(len(parts))]) if parts else np.zeros((0, 0), np.float32)
        )

    async def _vectors(self, exchange: Exchange, texts: Sequence[str]) -> NDArray[np.float32]:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return await exchange.post("/embeddings", lambda _: body, lambda answer: _read(answer, len(texts)))


def _read(answer: Mapping[str, Any], count: int) -> NDArray[np.float32]:
    """Return the vectors (count, H) of an answer, in the order of the texts."""
    rows = answer.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise MalformedError("the answer has no list `data` of embeddings")
    placed = {row.get("index", place): row.get("embedding") for place, row in enumerate(rows)}
    if sorted(placed, key=str) != sorted(range(count), key=str):
        raise MalformedError(f"the answer has {len(placed)} embeddings for {count} texts")
    try:
        vectors = np.array([placed[place] for place in range(count)], dtype=np.float32)
    except (ValueError, TypeError):
        raise MalformedError("an embedding is no list of numbers, or one is longer than another") from None
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise MalformedError("an embedding is empty or holds numbers that are not finite")
    return vectors
