"""One mapping draw of the APM benchmark: preferences, ratings, the method, and the arms it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.maths.labels import mean_ratings
from apm_lab.maths.preference import preferences, ratings
from apm_lab.maths.seeding import derived_seed, stream
from apm_lab.methods.nonpersonalized import NonPersonalized
from apm_lab.methods.protocols import Checkpointed, Counting, Method
from apm_lab.methods.routing_oracle import RoutingOracle, best_styles
from apm_lab.methods.views import PrivilegedView, TestView, TrainView, ValidationView
from apm_lab.records import Response, Style
from apm_lab.studies.arms import ArmDraw, judge_arm
from apm_lab.studies.responses import checked_responses
from apm_lab.studies.world import TestSide, TrainSide, seen_by

__all__ = [
    "BAYES",
    "CONSTANT",
    "CONTROLS",
    "ORACLE",
    "SHUFFLED",
    "TWIN",
    "Evaluation",
    "HistoryReader",
    "require_own_name",
    "shuffled_weights",
]

ORACLE, TWIN, SHUFFLED, RANDOM, CONSTANT, BAYES = (
    "routing_oracle",
    "nonpersonalized",
    "shuffled",
    "random_style",
    "constant_style",
    "bayes",
)
_OWNERS: dict[str, type | None] = {
    ORACLE: RoutingOracle,
    TWIN: NonPersonalized,
    **dict.fromkeys((SHUFFLED, RANDOM, CONSTANT, BAYES)),
}
CONTROLS = (TWIN, SHUFFLED, RANDOM)
"""The arms whose Delta must be zero, else the run is void (SPEC 1, "Control arms")."""


def require_own_name(name: str, method: object) -> None:
    """Raise ConfigError when a method would be called what one of the study's own arms is called."""
    owner = _OWNERS.get(name)
    if name in _OWNERS and (owner is None or type(method) is not owner):
        raise ConfigError(f"method={name}: an arm of the study has this name; give the method's option another one")


def shuffled_weights(weights: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the preference vectors (D, U, M) permuted between users, in every draw anew: whom `shuffled` serves."""
    return np.stack([shuffled(of_draw, seed, draw) for draw, of_draw in enumerate(weights)])


def shuffled(weights: NDArray[np.float64], seed: int, draw: int) -> NDArray[np.float64]:
    """Return one draw's preference vectors (U, M) permuted between users."""
    return weights[stream(seed, "shuffled", draw).permutation(len(weights))]


class HistoryReader(Protocol):
    """Tells attributes from histories knowing how they were written: nobody who reads these is right more often."""

    def posterior(self, histories: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return P(class | history) (U, 2N); class 2 i: attribute i shown, 2 i + 1: its opposite."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The built world and what is evaluated on it. Hidden things live here, and no view reaches it.

    `mappings` (D, M, N) and the test users' `weights` (D, U, M), their preferences. `train`, `validation` and
    `validation_answers` are None where nothing is learnt, nobody is held out, or no judged answers are wanted.
    `checkpoint` gives the folder for what an arm learnt in a draw (None: nothing is written).
    """

    method: Method | RoutingOracle
    method_name: str
    references: Mapping[str, Method]
    reader: HistoryReader | None
    mappings: NDArray[np.float64]
    normalise: str
    weights: NDArray[np.float64]
    test: TestSide
    train: TrainSide | None
    validation: TrainSide | None
    validation_answers: TestSide | None
    seed: int
    log: Callable[[str, dict[str, float]], None] | None = None
    checkpoint: Callable[[int, str], Path] | None = None

    def evaluate(self, draw: int) -> dict[str, ArmDraw]:
        """Return every arm's outcome under one mapping."""
        counts: dict[str, Mapping[str, int]] = {}
        answers = self._answers(draw, counts)
        arms = {
            name: judge_arm(self.test, self.weights[draw], given, counts.get(name)) for name, given in answers.items()
        }
        if self.method_name != TWIN:
            others = shuffled(self.weights[draw], self.seed, draw)
            arms[SHUFFLED] = judge_arm(self.test, others, answers[self.method_name])
        return arms

    def _answers(self, draw: int, counts: dict[str, Mapping[str, int]]) -> dict[str, Sequence[Response]]:
        """Return the responses of the method, its references, and the arms that read nothing; fills in `counts`."""
        users = len(self.test.users)
        privileged = PrivilegedView(self.weights[draw].copy(), derived_seed(self.seed, "oracle", draw))
        answers: dict[str, Sequence[Response]] = {}
        if isinstance(self.method, RoutingOracle):
            answers[self.method_name] = self.method.respond_knowing(privileged)
        else:
            for name, method in {self.method_name: self.method, **self.references}.items():
                answers[name] = checked_responses(
                    self._fitted(draw, name, method).respond(self.test_view(draw)), name, users, self.test.pool
                )
                counts[name] = method.counts if isinstance(method, Counting) else {}
        answers.setdefault(TWIN, [Response(sample=1)] * users)
        answers.setdefault(ORACLE, RoutingOracle().respond_knowing(privileged))
        at_random = stream(self.seed, "random style", draw).integers(self.test.pool.styles, size=users)
        answers[RANDOM] = [Response(style=Style.of(index)) for index in at_random.tolist()]
        if self.train is not None:
            answers[CONSTANT] = [Response(style=self._best_constant(draw, self.train))] * users
        if self.reader is not None:
            answers[BAYES] = self._read(draw, self.reader)
        return answers

    def _fitted(self, draw: int, name: str, method: Method) -> Method:
        """Return the method, fitted and its checkpoint written where it learns and has one."""
        if self.train is not None:
            method.fit(self.train_view(draw, self.train, name))
            if self.checkpoint is not None and isinstance(method, Checkpointed):
                method.save(self.checkpoint(draw, name))
        return method

    def train_view(self, draw: int, side: TrainSide, name: str) -> TrainView:
        """Return what `fit` may see. Ratings are computed here and now; nothing in the view refers back."""
        values, known = self._ratings(draw, side)
        return TrainView(
            side.histories,
            values,
            known,
            side.candidates,
            self.test.pool.principles,
            self._validation_view(draw),
            derived_seed(self.seed, "method", draw),
            None if self.log is None else partial(self.log, f"{name}/draw{draw}"),
        )

    def test_view(self, draw: int) -> TestView:
        """Return what `respond` may see: histories, queries and a handle that generates."""
        side, seed = self.test, derived_seed(self.seed, "method", draw)
        return TestView(side.histories, side.queries, side.responses, side.pool.principles, seed)

    def _ratings(self, draw: int, side: TrainSide) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the simulated users' ratings (U, T, S) of their candidates, with the mask."""
        weights = self._weights(draw, side)
        return ratings(weights, *seen_by(side, weights))

    def _weights(self, draw: int, side: TrainSide) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = preferences(self.mappings[draw], side.users.attributes, self.normalise)[0]
        return weights

    def _validation_view(self, draw: int) -> ValidationView | None:
        if self.validation is None:
            return None
        judged = None
        if self.validation_answers is not None:
            weights, people = self._weights(draw, self.validation), len(self.validation.users)
            columns = [
                judge_arm(self.validation_answers, weights, [Response(style=Style.of(index))] * people)
                for index in range(self.test.pool.styles)
            ]
            judged = (
                np.stack([column.difference for column in columns], axis=1),
                np.stack([column.known for column in columns], axis=1),
            )
        rated = self._ratings(draw, self.validation)
        return ValidationView(self.validation.histories, *rated, judged, self.validation.candidates)

    def _best_constant(self, draw: int, side: TrainSide) -> Style:
        """Return the one style that training users rate best on average."""
        rated, known = mean_ratings(*self._ratings(draw, side))
        total = np.where(known, rated, 0.0).sum(axis=0)
        count = known.sum(axis=0)
        mean = np.divide(total, count, out=np.full(total.shape, -np.inf), where=count > 0)
        return Style.of(int(mean.argmax()))

    def _read(self, draw: int, reader: HistoryReader) -> list[Response]:
        """Return the style that is likeliest a user's top one under the true mapping: right most often of all readers.

        Under a permutation it is the style of the likeliest attribute. Queries are not read.
        """
        posterior = reader.posterior(self.test.histories)
        size = self.mappings.shape[2]
        classes = np.zeros((2 * size, size))
        classes[0::2], classes[1::2] = np.eye(size), -np.eye(size)
        best = best_styles(preferences(self.mappings[draw], classes, self.normalise)[0])
        return [Response(style=Style.of(index)) for index in (posterior @ best).argmax(axis=1).tolist()]
