"""A judge that asks nothing: how much likelier a model finds the text when told to be X than when told to avoid it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from apm_lab.data.pool import PRINCIPLES, slug, style_instruction
from apm_lab.errors import ConfigError
from apm_lab.judging.examples import own_examples
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
from apm_lab.maths.preference import MIDPOINT
from apm_lab.records import Message

__all__ = ["PmiJudge"]

_BATCH = 256


class PmiJudge:
    """Rates a text by log P(text | "Be X.") - log P(text | "Avoid being X."), on a scale that reference texts set.

    What works with a model of 135M parameters, which follows no rubric. The text is what is predicted and is never read
    as an instruction. s- is 11 - s+ by construction.

    The difference is that of whole texts, not per word: on the health set (SmolLM2) a mean per word takes `elaborate`
    from an AUC of .80 to .36 and the mean of all ten from .97 to .93, a square root in between to .68 and .96. Length
    is what elaboration is made of, and no other principle gains. So a long text ends nearer to 1 or 10 than a short one
    of the same style.

    Args:
        model: the backend; it must take long answers.
        few_shot: let the chat begin with answers that follow (avoid) the principle, where it has examples of its own. A
            small model hardly hears the instruction alone.
        score: `pmi`, which `judge.score` has to name.

    Raises:
        ConfigError: the backend gives no log-probabilities, or another score is wanted.

    """

    mirrored = True
    draws = False

    def __init__(self, model: ChoiceModel, few_shot: bool = True, score: str = "pmi") -> None:
        if score != "pmi":
            raise ConfigError(f"judge.score={score}: this judge compares probabilities of the text; expected pmi")
        if not hasattr(model, "log_probabilities"):
            named = f"{type(model).__module__}.{type(model).__qualname__}"
            raise ConfigError(f"judge.score=pmi: {named} gives no probabilities of texts; it has no log_probabilities")
        self._model: Any = model
        self._few_shot = few_shot
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
        chats = [self._chat(slug(name), direction) for name in PRINCIPLES for direction in (1, -1)]
        told = [turn.content for chat in chats for turn in chat]
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

    def reads_per_question(self, question: Question) -> tuple[float, float]:
        """Return that a text is read twice for one rating, and the characters of both chats before it."""
        chats = [self._chat(question.principle, direction) for direction in (1, -1)]
        return 2.0, sum(len(turn.content) for chat in chats for turn in chat)

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
                    rating = 2 * MIDPOINT - rating
                yield [Answer(start + place, rating, usage)]

    def _scale(self, principle: str) -> Scale:
        asked = [(text, principle) for text in reference_texts(principle)]
        return Scale.of(principle, [difference for _, difference, _ in self._differences(asked)])

    def _differences(self, asked: Sequence[tuple[str, str]]) -> Iterator[tuple[int, float, Usage | None]]:
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
