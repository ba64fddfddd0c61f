"""A judge that asks nothing: how much likelier a model finds the text when told to be X than when told to avoid it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from apm_lab.errors import ConfigError
from apm_lab.judging.differences import Differences
from apm_lab.judging.reference import Scale, reference_digest, reference_texts
from apm_lab.language.protocols import (
    Answer,
    ChoiceModel,
    KnowsItsPool,
    Question,
    Ready,
    ScoreCall,
)
from apm_lab.maths.preference import MIDPOINT

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
        self.differences = Differences(model, few_shot)
        self._scales: dict[str, Scale] = {}
        self._told: dict[str, Sequence[float]] = {}

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
        values = {**self.differences.values, "score": "pmi", "reference": reference_digest()}
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
        return self.differences.reads_per_question(question)

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Iterator[Sequence[Answer[float | None]]]:
        """Yield ratings as the backend answers; a principle that is new to this judge is measured on the reference.

        Not where `calibrate` has told what the reference shows.
        """
        for start in range(0, len(calls), _BATCH):
            for principle in {call.question.principle: None for call in calls[start : start + _BATCH]}:
                if principle not in self._scales:
                    self._scales[principle] = self._scale(principle)
            part = [(call.text, call.question.principle) for call in calls[start : start + _BATCH]]
            for place, difference, usage in self.differences.of(part):
                question = calls[start + place].question
                rating = self._scales[question.principle].rating(difference)
                if rating is not None and question.direction < 0:
                    rating = 2 * MIDPOINT - rating
                yield [Answer(start + place, rating, usage)]

    def reference_texts(self, principle: str) -> tuple[str, ...]:
        """Return the texts whose differences set the scale of a principle."""
        return reference_texts(principle)

    def calibrate(self, principle: str, differences: Sequence[float]) -> None:
        """Take the differences of the reference texts from who keeps them, so that they are not measured here."""
        self._told[principle] = differences

    def _scale(self, principle: str) -> Scale:
        told = self._told.get(principle)
        if told is None:
            asked = [(text, principle) for text in reference_texts(principle)]
            told = [difference for _, difference, _ in self.differences.of(asked)]
        return Scale.of(principle, told)
