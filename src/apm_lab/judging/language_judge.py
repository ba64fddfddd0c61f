"""A judge on any language model: the rubric's question as a chat, and the rating read off its answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from apm_lab.data.pool import slug
from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.judging.examples import examples_digest, examples_of
from apm_lab.judging.rubric import JOINT_SYSTEM, SYSTEM, fenced, joint_question_text, question_text
from apm_lab.judging.verdict import joint_verdicts, verdict
from apm_lab.language.protocols import (
    Answer,
    ChoiceCall,
    GenerationCall,
    KnowsItsPool,
    NestsAnswers,
    Question,
    Ready,
    ScoreCall,
    TextModel,
)
from apm_lab.language.recall import streamed
from apm_lab.records import Message

__all__ = ["RATINGS", "LanguageJudge"]

RATINGS = tuple(str(rating) for rating in range(1, 11))
_SEED_BYTES = 6  # of a question's seed, as the sample's number: every backend can count to that

Ratings = Iterator[Sequence[Answer[float | None]]]


class LanguageJudge:
    """Rates texts by asking a language model the rubric's question.

    Args:
        model: the backend that is asked.
        score: `sampled` reads the number off a generated answer; `expected` is the mean of 1..10 under the
            probabilities that the model gives these ten answers, which needs a `ChoiceModel`.
        mode: `narrow` asks one principle at a time, `joint` all of them in one question (`sampled` only).
        few_shot: show rated examples first. A base model needs them.
        constrained: ask the backend to decode nothing but a rating, where it can. Off for a model that thinks aloud.
        pool_principles: the principles that are asked together under `joint`; the run's own pool hands them over.

    Raises:
        ConfigError: the backend can't do what is asked of it, or two of these values contradict each other.

    """

    def __init__(
        self,
        model: TextModel,
        score: Literal["sampled", "expected", "pmi"] = "sampled",
        mode: Literal["narrow", "joint"] = "narrow",
        few_shot: bool = False,
        constrained: bool = True,
        pool_principles: list[str] | None = None,
    ) -> None:
        self._model: Any = model  # a `ChoiceModel` too where ratings are expected ones
        self._score, self._few_shot, self._constrained = score, few_shot, constrained
        self.joint, self.draws = mode == "joint", score == "sampled"
        self._together = tuple(slug(name) for name in pool_principles or ())
        if score == "pmi":
            raise ConfigError(
                "judge.score=pmi asks no question: take apm_lab.judging.pmi_judge.PmiJudge as judge.model"
            )
        for key, value, known in (("score", score, ("sampled", "expected")), ("mode", mode, ("narrow", "joint"))):
            if value not in known:
                raise ConfigError(f"judge.{key}={value}{did_you_mean(value, known)}")
        _require_able(model, score)
        if self.joint and score == "expected":
            raise ConfigError("judge.mode=joint gives one answer with many numbers; it needs judge.score=sampled")
        if self.joint and few_shot:
            raise ConfigError("judge.model.few_shot=true has examples for judge.mode=narrow only")
        if self.joint and not self._together:
            raise ConfigError("judge.mode=joint needs the principles to ask for; name judge.model.pool_principles")

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
        """Canonical JSON of the backend's sampling values and of all that shapes the question or the rating."""
        values = {
            "backend": json.loads(self._model.sampling),
            "score": self._score,
            "mode": "joint" if self.joint else "narrow",
            "few_shot": examples_digest() if self._few_shot else None,
            "constrained": self._score == "sampled" and not self.joint and self._constrained,
        }
        if self.joint:
            values["together"] = list(self._together)
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
        """Return one rating per question, None where the answer is none."""
        calls = [ScoreCall(text, question, key) for question, key in zip(questions, keys, strict=True)]
        ratings: list[float | None] = [None] * len(calls)
        for group in self.stream_scores(calls):
            for answer in group:
                ratings[answer.place] = answer.value
        return ratings

    def reads_per_question(self, question: Question) -> tuple[float, float]:
        """Return how often a text is read for one rating, and the characters beside it: rubric, question, examples."""
        call = ScoreCall("", question, b"")
        turns, shared = (self._joint_call(call).messages, len(self._together)) if self.joint else (self._chat(call), 1)
        return 1 / shared, sum(len(turn.content) for turn in turns) / shared

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Ratings:
        """Yield ratings as the backend answers; the calls that share the most of their chat are asked together."""
        if self.joint:
            yield from self._joint(calls)
            return
        places = list(range(len(calls)))
        if self._few_shot:  # one question's examples are longer than the text, and begin every chat about it
            places.sort(key=lambda place: (calls[place].question.principle, calls[place].question.direction))
        asked = [calls[place] for place in places]
        for group in self._expected(asked) if self._score == "expected" else self._sampled(asked):
            yield [Answer(places[answer.place], answer.value, answer.usage) for answer in group]

    def _sampled(self, calls: Sequence[ScoreCall]) -> Ratings:
        choices = RATINGS if self._constrained else None
        asked = [GenerationCall(self._chat(call), _sample(call.seed), choices) for call in calls]
        for group in streamed(self._model, asked):
            yield [Answer(answer.place, verdict(answer.value), answer.usage) for answer in group]

    def _expected(self, calls: Sequence[ScoreCall]) -> Ratings:
        nested = self._model.begins(RATINGS[0], RATINGS[9]) if isinstance(self._model, NestsAnswers) else None
        asked = [ChoiceCall(self._chat(call), RATINGS) for call in calls]
        for group in self._model.log_probabilities(asked):
            yield [Answer(answer.place, expected_rating(answer.value, nested), answer.usage) for answer in group]

    def _joint(self, calls: Sequence[ScoreCall]) -> Ratings:
        """Ask once per text and direction; the first of its questions seeds the answer and has its tokens."""
        order = sorted(range(len(calls)), key=lambda place: (calls[place].text, -calls[place].question.direction))
        groups = [
            list(group)
            for _, group in groupby(order, key=lambda place: (calls[place].text, calls[place].question.direction))
        ]
        asked = [self._joint_call(calls[group[0]]) for group in groups]
        for answers in streamed(self._model, asked):
            for answer in answers:
                rated = dict(zip(self._together, joint_verdicts(answer.value, self._together), strict=True))
                yield [
                    Answer(place, rated.get(calls[place].question.principle), None if later else answer.usage)
                    for later, place in enumerate(groups[answer.place])
                ]

    def _joint_call(self, call: ScoreCall) -> GenerationCall:
        question = joint_question_text(self._together, call.question.direction)
        chat = Message("system", JOINT_SYSTEM), Message("user", f"{fenced(call.text)}\n\n{question}")
        return GenerationCall(chat, _sample(call.seed))

    def _chat(self, call: ScoreCall) -> tuple[Message, ...]:
        turns = [Message("system", SYSTEM)]
        for example in examples_of(call.question.principle) if self._few_shot else ():
            direction = call.question.direction
            rating = example.rating if direction > 0 else 11 - example.rating
            turns += [_asked(example.text, Question(example.principle, direction)), Message("assistant", str(rating))]
        return *turns, _asked(call.text, call.question)


def expected_rating(logs: Sequence[float], nested: bool | None) -> float | None:
    """Return the mean of 1..10 under the probabilities of these ten answers, None where they are no probabilities.

    Where the tokens of "1" begin those of "10" (`nested`), the probability of "1" holds that of "10", which is taken
    out. None: not known; then it is taken out where "10" is no likelier than "1", as it must be if it is in there.
    Where it was not in there, that moves the mean by P(10) (mean - 1) / (1 - P(10)): next to nothing, unless the model
    is torn between both ends of the scale.
    """
    if len(logs) != len(RATINGS) or any(math.isnan(log) or log > 1e-3 for log in logs) or max(logs) == -math.inf:
        return None
    top = max(logs)
    weights = [math.exp(log - top) for log in logs]
    if nested or (nested is None and weights[9] <= weights[0]):
        weights[0] = max(weights[0] - weights[9], 0.0)
    total = sum(weights)
    return sum(rating * weight for rating, weight in enumerate(weights, start=1)) / total


def _require_able(model: object, score: str) -> None:
    """Raise ConfigError where the backend has not the method that this score asks: another score is no substitute."""
    named = f"{type(model).__module__}.{type(model).__qualname__}"
    if score == "expected" and not hasattr(model, "log_probabilities"):
        raise ConfigError(
            f"judge.score=expected: {named} gives no probabilities of answers (it has no log_probabilities); "
            "take another judge.model.model, or judge.score=sampled"
        )
    if score == "sampled" and not hasattr(model, "generate"):
        raise ConfigError(f"judge.model.model: {named} is no TextModel")


def _asked(text: str, question: Question) -> Message:
    return Message("user", f"{fenced(text)}\n\n{question_text(question)}")


def _sample(seed: bytes) -> int:
    return int.from_bytes(seed[:_SEED_BYTES], "big")
