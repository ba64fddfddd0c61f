"""What reward models of this process share: calls in parts, rewards gathered by call, texts that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from apm_lab.errors import ConfigError
from apm_lab.language.protocols import Answer, Usage
from apm_lab.language.reward_model import RewardCall

__all__ = ["Gathering", "halves", "in_parts", "require_fitting_text"]

_ENCODED = 1024  # calls in memory as tokens


class Gathering:
    """Rewards that come one by one, until all of a call's answers have theirs.

    `offset` is the place of the first call among all calls.
    """

    def __init__(self, calls: Sequence[RewardCall], offset: int, tokens: Sequence[int]) -> None:
        self._offset, self._tokens = offset, tokens
        self._values: list[list[float | None]] = [[None] * len(call.answers) for call in calls]
        self._left = [len(call.answers) for call in calls]

    def add(self, values: Iterable[tuple[int, int, float]]) -> list[Answer[tuple[float, ...]]]:
        """Take (call, answer, reward), each once, and return the calls that are now answered."""
        done = []
        for call, answer, value in values:
            self._values[call][answer] = value
            self._left[call] -= 1
            if not self._left[call]:
                found = tuple(value for value in self._values[call] if value is not None)
                done.append(Answer(self._offset + call, found, Usage(self._tokens[call], 0)))
        return done


def in_parts(calls: Sequence[RewardCall], size: int = _ENCODED) -> Iterator[tuple[int, Sequence[RewardCall]]]:
    """Yield (place of the first, calls): as many as are in memory as tokens at once."""
    for start in range(0, len(calls), size):
        yield start, calls[start : start + size]


def halves(call: RewardCall, answer: str) -> tuple[str, str]:
    """Return what the user and what the assistant says: the blanks between them belong to neither."""
    return call.prompt.rstrip(), answer.lstrip()


def require_fitting_text(name: str, text: str, tokens: int, context: int | None) -> None:
    """Raise ConfigError where a text has more tokens than the model's context: it is not cut."""
    if context is not None and tokens > context:
        raise ConfigError(
            f"{name}: the text {text[:40]!r}... has {tokens} tokens, more than its context of {context}; leave the "
            "question out, shorten it, or name a model that reads more"
        )
