"""What the study of reward models asks of one: a number for every choice of a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from apm_lab.language.protocols import Answer

__all__ = ["ComparesAnswers", "RewardCall", "RewardModel"]


@dataclass(frozen=True, slots=True)
class RewardCall:
    """One question as far as its answers share it, and the answers; read raw, the text is `prompt + answer`."""

    prompt: str
    answers: tuple[str, ...]


@runtime_checkable
class RewardModel(Protocol):
    """A model that rates answers. `identity`, `engine` and `sampling` are part of the store key, as a text model's are.

    `sampling` is canonical JSON of what changes the rewards beside the model: template, type computed in.
    """

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        ...

    @property
    def engine(self) -> str:
        """`hf`, `vllm` or `remote`."""
        ...

    @property
    def sampling(self) -> str:
        """Canonical JSON of what changes the rewards beside the model."""
        ...

    def rewards(self, calls: Sequence[RewardCall]) -> Iterator[Sequence[Answer[tuple[float, ...]]]]:
        """Yield per call the reward r(q, c) of each answer, in any order of calls; not finite where there is none."""
        ...


@runtime_checkable
class ComparesAnswers(Protocol):
    """A `RewardModel` whose reward of an answer depends on the others it is offered with."""

    compares_answers: bool
