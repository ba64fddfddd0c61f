"""A limit on what a run spends on models, which it stops before."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from typing import Any

from apm_lab.errors import BudgetError
from apm_lab.language.prices import Price, cost
from apm_lab.language.protocols import Answer, GenerationCall, ScoreCall, Usage

__all__ = ["Budget", "Guarded", "Spent", "most_tokens_out"]

_BESIDE = 64  # tokens that a chat's own marks may take
_QUESTION = 6000  # bytes of a judge's rubric, question and examples beside the judged text, at most
_USUAL_QUESTION = 300
_USUAL_MOST = 4096  # tokens of an answer where the sampling values name no limit
_AT_FIRST, _AT_ONCE = 8, 2000

Answers = Iterator[Sequence[Answer[Any]]]


@dataclass(slots=True)
class Spent:
    """What was spent so far."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    by_role: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Budget:
    """The most that may be spent: each None for no limit. `spent` goes on from what earlier processes spent.

    `keep` is told of what was spent after every group of answers.
    """

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    spent: Spent = field(default_factory=Spent)
    keep: Callable[[Mapping[str, Any]], None] | None = None

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.usd, self.tokens, self.calls))

    def room(self, bounds: Iterable[int], read_share: Callable[[int], float]) -> int:
        """Return how many of the next calls fit for certain; `bounds` are the most tokens that each can take."""
        tokens = math.inf if self.tokens is None else self.tokens - self.spent.tokens
        usd = math.inf if self.usd is None else self.usd - self.spent.usd
        calls = math.inf if self.calls is None else self.calls - self.spent.calls
        fitting = 0
        for bound in bounds:
            tokens, usd, calls = tokens - bound, usd - read_share(bound), calls - 1
            if min(tokens, usd, calls) < 0:
                break
            fitting += 1
        return fitting

    def spend(self, role: str, calls: int, tokens: int, usd: float) -> None:
        """Count what a group of answers took."""
        spent = self.spent
        spent.calls, spent.tokens, spent.usd = spent.calls + calls, spent.tokens + tokens, spent.usd + usd
        spent.by_role[role] = spent.by_role.get(role, 0) + calls
        if self.keep is not None:
            self.keep(asdict(spent))

    def used_up(self, role: str) -> BudgetError:
        """Return the fault that says what was spent and how to go on."""
        given = {"usd": self.usd, "tokens": self.tokens, "calls": self.calls}
        limits = " ".join(f"budget.{name}={value}" for name, value in given.items() if value is not None)
        made = ", ".join(f"{name} {count}" for name, count in self.spent.by_role.items()) or "none"
        return BudgetError(
            f"stopped before {limits} would be passed: the next call of the {role} might not fit. Spent: "
            f"{self.spent.calls} calls ({made}), {self.spent.tokens} tokens, {self.spent.usd:.4f} USD. What was "
            "answered is stored: the same command with a larger budget goes on"
        )


class Guarded:
    """A role's model that is asked for no more than the budget allows: for that much at once which fits in any case."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401 (of texts or of scores)
        role: str,
        budget: Budget,
        price: Price,
        ask: Callable[[Any, Sequence[Any]], Answers],
    ) -> None:
        self._model, self._role, self._budget, self._price, self._ask = model, role, budget, price, ask
        self._most_out = most_tokens_out(model.sampling) or _USUAL_MOST
        self._most_seen = [0, 0]
        self._joint = bool(getattr(model, "joint", False))  # one answer holds the ratings of all a text's questions
        # Where sizes count few are asked at first, should the backend count otherwise than is thought here.
        self._at_once = _AT_ONCE if budget.tokens is budget.usd is None else _AT_FIRST

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever else the model says of itself)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_model"], name)

    def stream(self, calls: Sequence[GenerationCall]) -> Answers:
        """Yield the model's answers; BudgetError before the first call that might not fit."""
        return self._stream(calls, lambda call: sum(_size(turn.content) for turn in call.messages), 0, repeat(True))

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Answers:
        """Yield the model's ratings; BudgetError before the first question that might not fit."""
        about = [(call.text, call.question.direction) for call in calls]
        begins = (not place or about[place] != about[place - 1] for place in range(len(about)))
        return self._stream(calls, lambda call: _size(call.text) + _USUAL_QUESTION, _QUESTION - _USUAL_QUESTION, begins)

    def _stream(self, calls: Sequence[Any], size: Callable[[Any], int], more: int, begins: Iterable[bool]) -> Answers:
        """Ask for as many calls at once as fit in any case; each is of this `size` in bytes, and at most `more`.

        What does not begin something new belongs to the call before it and is asked with it: questions about one text.
        """
        new, start = [begin for _, begin in zip(calls, begins, strict=False)], 0
        while start < len(calls):
            end = min(start + self._at_once, len(calls))
            while end < len(calls) and not new[end]:
                end += 1
            self._at_once = min(2 * self._at_once, _AT_ONCE)
            most = [self._most(size(calls[place]) + more, new[place]) for place in range(start, end)]
            end = start + self._budget.room(most, self._dearest)
            while self._joint and start < end < len(calls) and not new[end]:
                end -= 1
            if end == start:
                raise self._budget.used_up(self._role)
            for group in self._ask(self._model, calls[start:end]):
                moved = [replace(answer, place=answer.place + start) for answer in group]
                self._count([(answer, size(calls[answer.place]), new[answer.place]) for answer in moved])
                yield moved
            start = end

    def _most(self, size: int, new: bool) -> int:
        """Return the most tokens that a call can take; nothing where the answer to the call before it is its own."""
        # A token is a byte at least, so no text has more tokens than bytes.
        return max(size + _BESIDE, self._most_seen[0]) + self._out() if new or not self._joint else 0

    def _out(self) -> int:
        return max(self._most_out, self._most_seen[1])

    def _dearest(self, most: int) -> float:
        """Return the most USD that a call of this many tokens can cost."""
        out = min(self._out(), most)
        return cost(self._price, most - out, out)

    def _count(self, answers: Iterable[tuple[Answer[Any], int, bool]]) -> None:
        calls, tokens, usd = 0, 0, 0.0
        for answer, size, new in answers:
            calls += 1
            used = answer.usage or (_estimated(size, answer.value) if new or not self._joint else Usage(0, 0))
            self._most_seen = [max(self._most_seen[0], used.tokens_in), max(self._most_seen[1], used.tokens_out)]
            tokens += used.tokens_in + used.tokens_out
            usd += cost(self._price, used.tokens_in, used.tokens_out)
        self._budget.spend(self._role, calls, tokens, usd)


def most_tokens_out(sampling: str) -> int | None:
    """Return the limit on an answer's tokens that sampling values name, also those of a judge's backend."""
    try:
        values = json.loads(sampling)
        named = values.get("max_tokens", (values.get("backend") or {}).get("max_tokens"))
        return int(named) if named is not None else None
    except (ValueError, TypeError, AttributeError):
        return None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _estimated(size: int, value: object) -> Usage:
    """Return the tokens of a call whose backend counts none: four bytes make one."""
    return Usage(size // 4, len(value) // 4 if isinstance(value, str) else 1)
