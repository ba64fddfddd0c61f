"""A loaded model with all that works on it; what several roles name is loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from apm_lab.language.hf_chats import ChatEncoder
from apm_lab.language.hf_network import Network
from apm_lab.language.hf_weights import load_language_model, locate

__all__ = ["Engine", "fresh_engine", "load_engine"]


@dataclass(frozen=True, slots=True)
class Engine:
    """A network, its tokenizer's chats, and the tokens that end an answer."""

    network: Network
    encoder: ChatEncoder
    ends: frozenset[int]
    tokenizer: Any

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer's tokens."""
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text


def load_engine(path_or_id: str, revision: str | None, dtype: str, device: str) -> Engine:
    """Return the engine of a model; the same for all that name the same place, revision, dtype and device."""
    return _loaded(locate(path_or_id), revision, dtype, device)


@cache
def _loaded(place: str, revision: str | None, dtype: str, device: str) -> Engine:
    return fresh_engine(place, revision, dtype, device)


def fresh_engine(place: str, revision: str | None, dtype: str, device: str) -> Engine:
    """Return an engine that is nobody else's: trained parts that are put into its network reach no other role."""
    loaded = load_language_model(place, revision, dtype, device)
    network = Network(loaded.model, device)
    ends = loaded.model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    known = frozenset(end for end in (*ends, loaded.tokenizer.eos_token_id) if end is not None)
    return Engine(network, ChatEncoder(loaded.tokenizer, network.context, place), known, loaded.tokenizer)
