"""A transformers text encoder: one vector per text, pooled from its tokens as the model was trained to be read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.language.hf_weights import (
    Loaded,
    auto_device,
    auto_dtype,
    identity_of,
    load_encoder,
    locate,
    require_model,
)

__all__ = ["HfEncoder"]


class HfEncoder:
    """An encoder of transformers; weights are loaded at the first call, once for all that name the same.

    Args:
        path_or_id: a folder, an offline model (`minilm`) or a hub id.
        pooling: `mean` of the tokens' last states, or the state of the first token (`cls`).
        max_tokens: a longer text counts by its beginning.
        revision: of a hub id.
        dtype: `float32` or `bfloat16`; `auto` as `HfModel` has it.
        device: as torch names it; `auto` takes a GPU where there is one.
        batch_size: texts side by side.
        name: what tables call it.

    """

    engine = "hf"

    def __init__(
        self,
        path_or_id: str,
        pooling: Literal["mean", "cls"],
        max_tokens: int = 512,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "float32",
        device: str = "auto",
        batch_size: int = 32,
        name: str | None = None,
    ) -> None:
        self.name = name or path_or_id
        if max_tokens < 1 or batch_size < 1:
            raise ConfigError(f"{self.name}: max_tokens={max_tokens} and batch_size={batch_size} must be at least 1")
        self._place, self._pooling, self._max_tokens, self._revision = path_or_id, pooling, max_tokens, revision
        self._dtype, self._device, self._batch_size = dtype, device, batch_size

    def ready(self) -> None:
        """Return nothing where all files are there; ConfigError names what is missing and the command that gets it."""
        require_model(self._place, self._revision)

    @property
    def identity(self) -> str:
        """Model id, revision or digest, and how vectors are made of it."""
        dtype = auto_dtype(self._dtype, auto_device(self._device))
        return f"{identity_of(self._place, self._revision)}:{self._pooling}:{self._max_tokens}:{dtype}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, (n, H), not normalised; texts of about the same length are read together."""
        import torch

        device = auto_device(self._device)
        loaded = _encoder(locate(self._place), self._revision, auto_dtype(self._dtype, device), device)
        found = np.zeros((len(texts), loaded.model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), self._batch_size):
            part = order[start : start + self._batch_size]
            batch = loaded.tokenizer(
                [texts[place] for place in part],
                padding=True,
                truncation=True,
                max_length=self._max_tokens,
                return_tensors="pt",
            ).to(device)
            with torch.inference_mode():
                state = loaded.model(**batch).last_hidden_state.float()
                if self._pooling == "cls":
                    pooled = state[:, 0]
                else:
                    real = batch["attention_mask"][:, :, None].float()
                    pooled = (state * real).sum(1) / real.sum(1).clamp(min=1e-9)
            found[part] = pooled.cpu().numpy()
        return found


@cache
def _encoder(place: str, revision: str | None, dtype: str, device: str) -> Loaded:
    loaded = load_encoder(place, revision, dtype, device)
    loaded.tokenizer.padding_side = "right"  # so that the first token is a text's own
    return loaded
