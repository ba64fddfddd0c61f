"""What a study would ask its models: the code that asks them forms the calls, and nobody need answer.

A text that nobody has written yet is stood for by a mark of its own, so that what depends on it is counted once too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from apm_lab.data.store import Shelf, Traffic
from apm_lab.errors import PendingCalls
from apm_lab.language.protocols import Answer, GenerationCall, Question, ScoreCall
from apm_lab.language.recall import CallCounts

__all__ = ["Forecast", "Foreseen", "Outlook", "is_pending"]

_MARK = re.compile("\x02[0-9a-f]{32}\x03")
_USUAL_TEXT = 1000
"""Characters that a text to come counts for where another model reads it."""
_QUESTION = 300
"""Characters beside the judged text where a judge does not say what it reads."""
_SAMPLES = 100

Answers = Iterator[Sequence[Answer[Any]]]


@dataclass(slots=True)
class Forecast:
    """What one role would ask one model: unique calls, those that are stored, and those that depend on texts to come.

    `characters` are those of the missing calls (texts to come counted as usual ones); `samples` some calls' own texts.
    """

    role: str
    header: tuple[str, ...]
    model: Any
    shelf: Shelf[Any]
    asked: int = 0
    stored: int = 0
    open: int = 0
    characters: float = 0
    samples: list[str] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """How many unique calls would have to be made; at most that many where some are open."""
        return self.asked - self.stored


class Outlook:
    """What one or more studies would ask; what several of them ask counts once."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.forecasts: dict[tuple[str, tuple[str, ...]], Forecast] = {}

    def of(self, role: str, header: Sequence[str], model: object, shelf: Shelf[Any]) -> Forecast:
        """Return the forecast of a role and model, begun where it is new."""
        return self.forecasts.setdefault((role, tuple(header)), Forecast(role, tuple(header), model, shelf))


def is_pending(text: str) -> bool:
    """Return whether a text holds the mark of one that is not written yet."""
    return "\x02" in text and _MARK.search(text) is not None


class Foreseen:
    """In place of a role's model and of its shelf: reads what is stored and counts what is missing.

    With `counts` the model is asked all the same, for what is known word by word and for as much as it answers now, and
    its answers are kept and counted there; only what it leaves open is foreseen.
    """

    def __init__(
        self,
        outlook: Outlook,
        role: str,
        model: Any,  # noqa: ANN401 (of texts or of scores)
        shelf: Any,  # noqa: ANN401 (a `Shelf` of texts or of scores)
        ask: Callable[[Any, Sequence[Any]], Answers],
        counts: CallCounts | None = None,
    ) -> None:
        self._outlook, self._role, self._model, self._shelf = outlook, role, model, shelf
        self._ask, self._counts = ask, counts
        self._missing: list[tuple[bytes, bool]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever else the model says of itself)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_model"], name)

    def of(self, header: Sequence[str], _traffic: Traffic | None = None) -> Any:  # noqa: ANN401
        """Return itself, for the rows of one source."""
        self._shelf = self._shelf.of(header, self._counts)
        self._forecast = self._outlook.of(self._role, header, self._model, self._shelf)
        self._texts = header[0] == "generate"
        return self

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return what is stored, and count the rest; of scores only whether they are there."""
        if self._texts or self._counts is not None:
            found: dict[bytes, Any] = self._shelf.get(keys)
        else:
            found = dict.fromkeys(self._shelf.holding(keys), 1.0)
        seen, forecast = self._outlook.seen, self._forecast
        unique = dict.fromkeys(keys)
        fresh = unique.keys() - seen
        seen |= fresh
        forecast.asked += len(fresh)
        forecast.stored += len(fresh & found.keys())
        self._missing = [(key, key in fresh) for key in unique if key not in found]
        return found

    def settled(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return what the shelf holds of keys that were just answered or marked."""
        return self._shelf.settled(keys) if self._counts is not None else {}

    def put(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keep what the model has answered, and no mark."""
        if self._counts is not None:
            self._shelf.put(row for row in rows if not (isinstance(row[1], str) and is_pending(row[1])))

    def stream(self, calls: Sequence[GenerationCall]) -> Answers:
        """Yield the model's answers where it is asked, and a mark for every other call."""
        contents = ([message.content for message in call.messages] for call in calls)
        return self._stream(calls, map(_measured, contents), lambda call: [turn.content for turn in call.messages])

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Answers:
        """Yield the model's ratings where it is asked; the others stay without a verdict."""
        reads = getattr(self._model, "reads_per_question", lambda _question: (1.0, _QUESTION))
        return self._stream(calls, _measured_texts(calls, cache(reads)), lambda call: [call.text])

    def _stream(
        self, calls: Sequence[Any], measured: Iterable[tuple[float, bool]], content: Callable[[Any], list[str]]
    ) -> Answers:
        forecast = self._forecast
        known: list[int] = []
        for place, ((size, depends), (_, fresh)) in enumerate(zip(measured, self._missing, strict=True)):
            if fresh:
                forecast.characters += size
                forecast.open += depends
                if len(forecast.samples) < _SAMPLES and not depends:
                    forecast.samples.append("\n".join(content(calls[place])))
            if not depends:
                known.append(place)
        answered: set[int] = set()
        if self._counts is not None and known:
            for group in self._answers([calls[place] for place in known]):
                answers = [Answer(known[answer.place], answer.value, answer.usage) for answer in group]
                answered.update(answer.place for answer in answers)
                yield answers
        if self._texts:
            marks = ((place, key) for place, (key, _) in enumerate(self._missing) if place not in answered)
            yield [Answer(place, f"\x02{key.hex()}\x03") for place, key in marks]

    def _answers(self, calls: Sequence[Any]) -> Answers:
        assert self._counts is not None
        with suppress(PendingCalls):  # the model has said which calls it has no answers to
            for group in self._ask(self._model, calls):
                for answer in group:
                    self._counts.made += 1
                    self._counts.spend(answer.usage)
                yield group


def _measured(contents: Sequence[str]) -> tuple[int, bool]:
    """Return how many characters these texts have together, and whether some of them are still to come."""
    size, depends = 0, False
    for text in contents:
        size += len(text)
        if "\x02" in text and (marks := len(_MARK.findall(text))):
            size += marks * _USUAL_TEXT
            depends = True
    return size, depends


def _measured_texts(
    calls: Sequence[ScoreCall], reads: Callable[[Question], tuple[float, float]]
) -> Iterator[tuple[float, bool]]:
    last, size, depends = None, 0, False
    for call in calls:
        if call.text is not last:  # one text's questions lie together
            last = call.text
            size, depends = _measured([last])
        often, beside = reads(call.question)
        yield often * size + beside, depends
