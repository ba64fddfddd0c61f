"""A judge that asks nothing: how much likelier a model finds the text when told to be X than when told to avoid it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from apm_lab.data.pool import PRINCIPLES, style_instruction
from apm_lab.errors import ConfigError
from apm_lab.judging.reference import Scale, reference_digest, reference_texts
from apm_lab.language.protocols import (
    Answer,
    ChoiceCall,
    ChoiceModel,
    KnowsItsPool,
    Question,
    Ready,
    ScoreCall,
    Usage,
)
from apm_lab.records import Message

__all__ = ["PmiJudge"]

_FRAME = "{instruction}"  # the user turn to which the text is the answer
_BATCH = 256


class PmiJudge:
    """Rates a text by log P(text | "Be X.") - log P(text | "Avoid being X."), on a scale that reference texts set.

    What works with a model of 135M parameters, which follows no rubric. The text is what is predicted and is never read
    as an instruction. s- is 11 - s+ by construction.
    """

    mirrored = True

    def __init__(self, model: ChoiceModel, score: str = "pmi") -> None:
        if score != "pmi":
            raise ConfigError(f"judge.score={score}: this judge compares probabilities of the text; expected pmi")
        if not hasattr(model, "log_probabilities"):
            named = f"{type(model).__module__}.{type(model).__qualname__}"
            raise ConfigError(f"judge.score=pmi: {named} gives no probabilities of texts; it has no log_probabilities")
        self._model: Any = model
        self._scales: dict[str, Scale] = {}

    @property
    def identity(self) -> str:
        """The backend's."""
        return str(self._model.identity)

    @property
    def engine(self) -> str:
        """The backend's."""
        return str(self._model.engine)

    @property
    def sampling(self) -> str:
        """Canonical JSON of the backend's values, the instructions and the reference texts."""
        backend = json.loads(getattr(self._model, "sampling", "{}"))
        told = [_chat(name, direction)[0].content for name in PRINCIPLES for direction in (1, -1)]
        values = {
            "backend": backend,
            "score": "pmi",
            "chats": blake2b("\x1f".join(told).encode(), digest_size=8).hexdigest(),
            "reference": reference_digest(),
        }
        return json.dumps(values, sort_keys=True)

    def ready(self) -> None:
        """Raise what the backend raises where this machine lacks something it needs."""
        if isinstance(self._model, Ready):
            self._model.ready()

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Raise ConfigError for names that the backend does not know, where it knows its pool."""
        if isinstance(self._model, KnowsItsPool):
            self._model.require(attributes, principles)

    def score(self, text: str, questions: Sequence[Question], keys: Sequence[bytes]) -> list[float | None]:
        """Return one rating per question, None where the model gives no probability."""
        ratings: list[float | None] = [None] * len(questions)
        for group in self.stream_scores([ScoreCall(text, question, b"") for question in questions]):
            for answer in group:
                ratings[answer.place] = answer.value
        return ratings

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Iterator[Sequence[Answer[float | None]]]:
        """Yield ratings as the backend answers; a principle that is new to this judge is measured on the reference."""
        for start in range(0, len(calls), _BATCH):
            for principle in {call.question.principle: None for call in calls[start : start + _BATCH]}:
                if principle not in self._scales:
                    self._scales[principle] = self._scale(principle)
            part = [(call.text, call.question.principle) for call in calls[start : start + _BATCH]]
            for place, difference, usage in self._differences(part):
                question = calls[start + place].question
                rating = self._scales[question.principle].rating(difference)
                if rating is not None and question.direction < 0:
                    rating = 11 - rating
                yield [Answer(start + place, rating, usage)]

    def _scale(self, principle: str) -> Scale:
        asked = [(text, principle) for text in reference_texts()]
        return Scale.of(principle, [difference for _, difference, _ in self._differences(asked)])

    def _differences(self, asked: Sequence[tuple[str, str]]) -> Iterator[tuple[int, float, Usage | None]]:
        """Yield place, difference and tokens of each (text, principle), when both its chats are answered."""
        chats = [ChoiceCall(_chat(principle, sign), (text,)) for text, principle in asked for sign in (1, -1)]
        first: dict[int, Answer[tuple[float, ...]]] = {}
        for group in self._model.log_probabilities(chats):
            for answer in group:
                place = answer.place // 2
                if place not in first:
                    first[place] = answer
                    continue
                pair = sorted((first.pop(place), answer), key=lambda each: each.place)
                difference = pair[0].value[0] - pair[1].value[0]
                yield place, difference / _length(asked[place][0]), _summed(pair[0].usage, pair[1].usage)


def _chat(principle: str, direction: int) -> tuple[Message, ...]:
    return (Message("user", _FRAME.format(instruction=style_instruction(principle, direction))),)


def _length(text: str) -> float:
    return math.sqrt(max(1, len(text.split())))


def _summed(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return None
    return Usage(one.tokens_in + other.tokens_in, one.tokens_out + other.tokens_out)
