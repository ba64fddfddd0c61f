"""The two views behind which every method lives: what it may learn from, and what it may answer with.

Neither reaches a user's attributes, the mapping or the attribute pool; nothing in them is computed later from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.pool import guided_messages, styled_messages
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import StoredTexts
from apm_lab.records import Message, Style

__all__ = ["PrivilegedView", "StyledTexts", "TestView", "TrainView", "ValidationView"]


class StyledTexts:
    """A model's answers to given prompts, by user: neutral, in a style, with guidance or to a chat of the method's own.

    Args:
        model: who answers (from the store where it did before).
        numbers: the users' stable numbers, which give each user texts of their own.
        prompts: one prompt per user and turn, (U, T).
        principles, placement: how a style is asked for.

    """

    __test__ = False

    def __init__(
        self,
        model: StoredTexts,
        numbers: Sequence[int],
        prompts: Sequence[Sequence[str]],
        principles: Sequence[str],
        placement: str,
    ) -> None:
        self._model, self._numbers, self._prompts = model, tuple(numbers), prompts
        self._principles, self._placement = tuple(principles), placement

    @property
    def numbers(self) -> tuple[int, ...]:
        """The users' stable numbers: the sample index of whatever is asked for a user. They are random."""
        return self._numbers

    def prompt(self, user: int, turn: int) -> str:
        """Return the prompt that a user gave in a turn."""
        return self._prompts[user][turn]

    def generate(self, wanted: Sequence[tuple[int, int, Style | None, int]]) -> list[str]:
        """Return a text per (user, turn, style or None for neutral, sample: 0, or 1 for the twin)."""
        return self._model.generate([self._call(*one) for one in wanted])

    def generate_guided(self, wanted: Sequence[tuple[int, int, str]]) -> list[str]:
        """Return a text per (user, turn, guidance: how to answer, which stands where a style instruction would)."""
        return self.generate_for(
            [
                (user, guided_messages(self._placement, self._prompts[user][turn], guidance))
                for user, turn, guidance in wanted
            ]
        )

    def generate_for(self, chats: Sequence[tuple[int, tuple[Message, ...]]]) -> list[str]:
        """Return a text per (user, chat of the method's own)."""
        return self._model.generate([GenerationCall(chat, self._numbers[user]) for user, chat in chats])

    def count_tokens(self, text: str) -> int:
        """Return the text's tokens by the model's tokenizer, or a quarter of its characters where none is here."""
        count = getattr(self._model.model, "count_tokens", None)
        tokens: int | None = None if count is None else count([text])
        return -(-len(text) // 4) if tokens is None else tokens

    def _call(self, user: int, turn: int, style: Style | None, sample: int) -> GenerationCall:
        messages = styled_messages(self._principles, self._placement, self._prompts[user][turn], style)
        # The twin's sample index must differ from every user's first one: stable numbers are positive.
        return GenerationCall(messages, self._numbers[user] if sample == 0 else -self._numbers[user])


@dataclass(frozen=True, slots=True)
class ValidationView:
    """Held-out training users: histories, ratings (V, T, S) with mask, the rated candidates, and, where asked for,
    judged answers.

    `judged` holds per style the rating of the model's answer less that of its neutral answer, (V, S) with mask.
    """

    histories: tuple[tuple[str, ...], ...]
    ratings: NDArray[np.float64]
    known: NDArray[np.bool_]
    judged: tuple[NDArray[np.float64], NDArray[np.bool_]] | None
    candidates: StyledTexts | None = None


@dataclass(frozen=True, slots=True)
class TrainView:
    """What `fit` sees: U histories, the simulated user's ratings (U, T, S) with mask, and the rated candidates.

    Of the S = 2M styles, `2 j` follows principle j and `2 j + 1` avoids it (`records.Style`).

    `principles` are known to methods by name (APM Sec. 4). `seed` is derived one-way. `log` takes training figures
    by name; the entry `step` is the step they belong to.
    """

    histories: tuple[tuple[str, ...], ...]
    ratings: NDArray[np.float64]
    known: NDArray[np.bool_]
    candidates: StyledTexts
    principles: tuple[str, ...]
    validation: ValidationView | None
    seed: int
    log: Callable[[dict[str, float]], None] | None = None


@dataclass(frozen=True, slots=True)
class TestView:
    """What `respond` sees: test users' histories and queries, and a handle that generates. No rating, no score."""

    __test__ = False

    histories: tuple[tuple[str, ...], ...]
    queries: tuple[str, ...]
    responses: StyledTexts
    principles: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class PrivilegedView:
    """What the oracle alone sees: the test users' true preferences (U, M)."""

    preferences: NDArray[np.float64]
    seed: int
