"""How much likelier a model finds a text when told to be X than when told to avoid it, before that is a rating."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from apm_lab.data.pool import PRINCIPLES, slug, style_instruction
from apm_lab.judging.examples import own_examples
from apm_lab.language.protocols import Answer, ChoiceCall, ChoiceModel, Question, ScoreCall, Usage
from apm_lab.maths.preference import MIDPOINT
from apm_lab.records import Message

__all__ = ["Differences"]


class Differences:
    """log P(text | "Be X.") - log P(text | "Avoid being X."), as a `ScoreModel` whose scores lie on no scale.

    It says nothing of how strongly a text avoids a principle but the same with its sign turned.
    """

    unbounded = True
    draws = False

    def __init__(self, model: ChoiceModel, few_shot: bool) -> None:
        self._model: Any = model
        self._few_shot = few_shot

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
        """Canonical JSON of the backend's values and the instructions."""
        return json.dumps({**self.values, "score": "difference"}, sort_keys=True)

    @property
    def values(self) -> dict[str, Any]:
        """What shapes a difference."""
        chats = [self._chat(slug(name), direction) for name in PRINCIPLES for direction in (1, -1)]
        told = [turn.content for chat in chats for turn in chat]
        return {
            "backend": json.loads(getattr(self._model, "sampling", "{}")),
            "chats": blake2b("\x1f".join(told).encode(), digest_size=8).hexdigest(),
        }

    def reads_per_question(self, question: Question) -> tuple[float, float]:
        """Return that a text is read twice, and the characters of both chats before it."""
        chats = [self._chat(question.principle, direction) for direction in (1, -1)]
        return 2.0, sum(len(turn.content) for chat in chats for turn in chat)

    def score(self, text: str, questions: Sequence[Question], keys: Sequence[bytes]) -> list[float | None]:
        """Return one difference per question."""
        found: list[float | None] = [None] * len(questions)
        for group in self.stream_scores([ScoreCall(text, question, b"") for question in questions]):
            for answer in group:
                found[answer.place] = answer.value
        return found

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Iterator[Sequence[Answer[float | None]]]:
        """Yield differences as the backend answers."""
        for place, difference, usage in self.of([(call.text, call.question.principle) for call in calls]):
            yield [Answer(place, difference * calls[place].question.direction, usage)]

    def of(self, asked: Sequence[tuple[str, str]]) -> Iterator[tuple[int, float, Usage | None]]:
        """Yield place, difference and tokens of each (text, principle), when both its chats are answered."""
        chats = [ChoiceCall(self._chat(principle, sign), (text,)) for text, principle in asked for sign in (1, -1)]
        first: dict[int, Answer[tuple[float, ...]]] = {}
        for group in self._model.log_probabilities(chats):
            for answer in group:
                place = answer.place // 2
                if place not in first:
                    first[place] = answer
                    continue
                pair = sorted((first.pop(place), answer), key=lambda each: each.place)
                yield place, pair[0].value[0] - pair[1].value[0], _summed(pair[0].usage, pair[1].usage)

    def _chat(self, principle: str, direction: int) -> tuple[Message, ...]:
        told = Message("user", style_instruction(principle, direction))
        shown = own_examples(principle) if self._few_shot else ()
        alike = [one.text for one in shown if (one.rating > MIDPOINT) == (direction > 0)]
        return *(turn for text in alike for turn in (told, Message("assistant", text))), told


def _summed(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return None
    return Usage(one.tokens_in + other.tokens_in, one.tokens_out + other.tokens_out)
