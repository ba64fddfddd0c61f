"""A causal language model taken apart: hidden states from its body, logits only where they are wanted."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from transformers.cache_utils import Cache

from apm_lab.errors import ConfigError
from apm_lab.language.hf_body import Body
from apm_lab.maths.dpo import token_log_probs

__all__ = ["Network"]

_SCALINGS = ("logit_scale", "logits_scaling", "final_logit_softcapping")


class Network:
    """The body and the head of a transformers model.

    Logits for all positions of a batch are never made: V is large. A head that is more than a linear layer and the
    scalings known here is refused, since its figures would be wrong.
    """

    def __init__(self, model: Any, device: str) -> None:  # noqa: ANN401
        self.model, self.device = model, device
        self.body, self._head = Body(model.base_model, model.config, device), model.get_output_embeddings()
        self._config = model.config.get_text_config()
        self._require_known_head(model)

    @property
    def context(self) -> int | None:
        """The most positions the model knows."""
        return self.body.context

    @property
    def plain(self) -> bool:
        """Whether each token is remembered in a column of its own, so that rows can be shared."""
        return self.body.plain

    @property
    def window(self) -> int | None:
        """How many columns some layers look back; None for all."""
        return self.body.window

    @property
    def vocabulary(self) -> int:
        """The number of tokens, V, that the head has a logit for."""
        return int(self._head.weight.shape[0])

    def cache(self) -> Cache:
        """Return an empty cache that fits the model."""
        return self.body.cache()

    def hidden(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache | None
    ) -> torch.Tensor:
        """Return the last hidden states (B, T, H) of tokens (B, T); `mask` (B, L + T) says which columns are real."""
        return self.body.hidden(ids, mask, positions, cache)

    def embedded(self, ids: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
        """Return the embeddings (B, T, H) of tokens (B, T), in which id `-1 - i` stands for the vector `soft[i]`."""
        return self.body.embedded(ids, soft)

    def prefixed(self, soft: torch.Tensor | None) -> AbstractContextManager[None]:
        """Let negative ids stand for vectors of `soft` (n, H) inside, as `embedded` has it."""
        return self.body.prefixed(soft)

    def states(self, vectors: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states (B, T, H) of embeddings (B, T, H), differentiable by them (`Body.states`)."""
        return self.body.states(vectors, mask, positions)

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
