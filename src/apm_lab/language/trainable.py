"""What a method that trains the model under evaluation asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # with torch behind it
    from apm_lab.language.hf_engine import Engine

__all__ = ["Trainable"]


class Trainable(Protocol):
    """A backend whose network is in this process, so that a method can put trained parts of its own into it.

    Whether a model is one shows in its having `opened`; its identity may not be known before it is ready.
    """

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        ...

    @property
    def most_tokens(self) -> int:
        """The longest answer."""
        ...

    def opened(self) -> Engine:
        """Return the network with its tokenizer, loaded once for all that name the same model."""
        ...

    def answers_to(self, prompts: Sequence[Sequence[int]], seeds: Sequence[bytes]) -> list[str]:
        """Return one answer per prompt of tokens, drawn as the model draws its answers, by a stream from its seed."""
        ...
