"""What the rest of the house asks of a language backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from apm_lab.records import Message

__all__ = ["GenerationCall", "KnowsItsPool", "Question", "ScoreModel", "TextModel"]


@dataclass(frozen=True, slots=True)
class GenerationCall:
    """One request for text: the chat so far, and which of several independent samples is wanted."""

    messages: tuple[Message, ...]
    sample: int


@dataclass(frozen=True, slots=True)
class Question:
    """One narrow question to a judge: how strongly does the text follow (`direction=1`) or avoid (`-1`) a principle."""

    principle: str
    direction: int


class TextModel(Protocol):
    """A model that answers chats.

    `identity` (model id and revision; simulated: digest of code and constants), `engine` and `sampling` (canonical
    JSON of the sampling values) are part of the store key; nothing else about the model is.
    """

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`simulated`, `hf`, `vllm` or `remote`."""
        ...

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        ...

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order."""
        ...


class ScoreModel(Protocol):
    """A model that rates texts; same identity rules as `TextModel`."""

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`simulated`, `hf`, `vllm` or `remote`."""
        ...

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        ...

    def score(self, text: str, questions: Sequence[Question], keys: Sequence[bytes]) -> list[float | None]:
        """Return a rating in [1, 10] per question, or None where there is no verdict; `keys` seed the sampling."""
        ...


@runtime_checkable
class KnowsItsPool(Protocol):
    """A backend that understands some attributes or principles only, and says so before anything is spent.

    A language model takes any name and has no such method. Names are keys, as `data.pool.slug` makes them.
    """

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Return nothing where it knows all that its role works with; ConfigError names the others and the nearest."""
        ...
