"""The APM benchmark: whether a method can infer a user's hidden style preferences from history alone.

Reads top to bottom like the paper: users and texts (built once), then per mapping draw preferences, ratings, the
method, and the arms it is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.pool import Pool
from apm_lab.data.prompts import PromptPools
from apm_lab.data.users import Users, make_users
from apm_lab.errors import ConfigError
from apm_lab.judging.health import Health, measure_health, require_health
from apm_lab.judging.judge import Judge
from apm_lab.language.recall import StoredTexts
from apm_lab.language.stored_vectors import StoredVectors
from apm_lab.maths.mapping import Mappings
from apm_lab.maths.preference import preferences
from apm_lab.methods.protocols import Method, learns, least_users
from apm_lab.methods.routing_oracle import RoutingOracle
from apm_lab.records import Style
from apm_lab.studies.arms import ArmDraw
from apm_lab.studies.evaluation import Evaluation, HistoryReader, shuffled_weights
from apm_lab.studies.world import Progress, TestSide, TrainSide, needed_entries

__all__ = ["Parts", "Personalization", "PersonalizationDraws", "UserSettings"]


class Parts(Protocol):
    """Where finished draws are kept, so that an interrupted run continues with the next one."""

    def load(self, draw: int) -> dict[str, ArmDraw] | None:
        """Return the arms of a finished draw, or None."""
        ...

    def save(self, draw: int, arms: Mapping[str, ArmDraw]) -> None:
        """Keep the arms of a finished draw; all of them or none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """How many users of each split, and what they are like: `active` is k, `turns` is T."""

    train: int = 1000
    test: int = 500
    validation: int = 100
    active: int = 1
    turns: int = 2
    balance: bool = True


@dataclass(frozen=True, slots=True)
class PersonalizationDraws:
    """Everything the tables are made of: per draw and arm one `ArmDraw`, and the blocks the draws fall into."""

    method: str
    arms: list[dict[str, ArmDraw]]
    blocks: NDArray[np.int64]
    user_ids: tuple[str, ...]
    health: Health
    styles: tuple[str, ...]


@dataclass(slots=True)
class Personalization:
    """One evaluation of one method.

    `method_name` names it in tables. `method_asks`: whom the method asks itself, by role. `references` are further
    methods fitted beside it on the same views (a simple router, say). `reader` gives the `bayes` arm where the world
    has one. `judged_validation` asks for judged answers of held-out training users. `log` takes a name and training
    figures. `checkpoint` gives the folder for what an arm learnt in a draw (None: nothing is written).
    """

    pool: Pool
    users: UserSettings
    prompts: PromptPools
    mappings: Mappings
    normalise: str
    rewriter: StoredTexts
    generator: StoredTexts
    model: StoredTexts
    judge: Judge
    method: Method | RoutingOracle
    method_name: str
    seed: int
    method_asks: Mapping[str, StoredTexts | StoredVectors] = field(default_factory=dict)
    references: Mapping[str, Method] = field(default_factory=dict)
    reader: HistoryReader | None = None
    allow_unhealthy: bool = False
    judged_validation: bool = False
    log: Callable[[str, dict[str, float]], None] | None = None
    checkpoint: Callable[[int, str], Path] | None = None

    def run(self, progress: Progress, parts: Parts) -> PersonalizationDraws:
        """Return the outcome of every draw; finished ones are taken from `parts`."""
        self._require_people()
        health = measure_health(self.judge)
        progress("judge health", 1, 1)
        require_health(health, self.allow_unhealthy)
        finished = [parts.load(draw) for draw in range(len(self.mappings.matrices))]
        if None in finished:
            evaluation = self.build(progress)
            for draw, done in enumerate(finished):
                if done is None:
                    finished[draw] = evaluation.evaluate(draw)
                    parts.save(draw, finished[draw] or {})
                progress("mapping draws", draw + 1, len(finished))
        arms = [done for done in finished if done is not None]
        names = tuple(self.pool.style_name(Style.of(index)) for index in range(self.pool.styles))
        ids = self._people("test", self.users.test).ids
        return PersonalizationDraws(self.method_name, arms, self.mappings.blocks, ids, health, names)

    def build(self, progress: Progress) -> Evaluation:
        """Return the built world: generates and judges what the method needs, where the store does not hold it.

        A method that reads no training view needs no training users. ConfigError where one that does has none.
        """
        self._require_people()
        trains = self._trains
        held_out = self._people("validation", self.users.validation)
        sides = [
            self._train_side(people, progress) if trains and len(people) else None
            for people in (self._people("train", self.users.train), held_out)
        ]
        matrices = self.mappings.matrices
        test = self._people("test", self.users.test)
        weights = preferences(matrices, test.attributes, self.normalise)
        needed = needed_entries(np.concatenate([weights, shuffled_weights(weights, self.seed)]))
        side = self._test_side(test, needed, progress)
        answers = None
        if self.judged_validation and sides[1] is not None:
            # The same texts as their history: a rewritten prompt is one call, whoever asks for it.
            asking = replace(held_out, queries=tuple(neutral[0] for neutral in held_out.neutral))
            weighed = needed_entries(preferences(matrices, asking.attributes, self.normalise))
            answers = self._test_side(asking, weighed, progress)
        return Evaluation(
            method=self.method,
            method_name=self.method_name,
            references=self.references,
            reader=self.reader,
            mappings=matrices,
            normalise=self.normalise,
            weights=weights,
            test=side,
            train=sides[0],
            validation=sides[1],
            validation_answers=answers,
            seed=self.seed,
            log=self.log,
            checkpoint=self.checkpoint,
        )

    def training(self, draws: Sequence[int], progress: Progress) -> tuple[TrainSide, NDArray[np.float64]]:
        """Return the training users, judged as these draws need it, and their preferences (D, U, M) in each.

        The model under evaluation is asked nothing. ConfigError where there are no training users.
        """
        users = self._people("train", self.users.train)
        if not len(users):
            raise ConfigError(f"users.train={self.users.train}: there are no training users; expected at least 1")
        weights = preferences(self.mappings.matrices[list(draws)], users.attributes, self.normalise)
        needed = needed_entries(weights)
        side = TrainSide.build(users, self.pool, self.rewriter, self.generator, self.judge, needed, progress)
        return side, weights

    @property
    def _trains(self) -> bool:
        return isinstance(self.method, Method) and learns(self.method)

    def _require_people(self) -> None:
        if self.users.test < 1:
            raise ConfigError(f"users.test={self.users.test}: there is nobody to evaluate on; expected at least 1")
        least = least_users(self.method)
        if self._trains and self.users.train < least:
            raise ConfigError(f"users.train={self.users.train}: {self.method_name} learns; expected at least {least}")

    def _train_side(self, users: Users, progress: Progress) -> TrainSide:
        needed = needed_entries(preferences(self.mappings.matrices, users.attributes, self.normalise))
        return TrainSide.build(users, self.pool, self.rewriter, self.generator, self.judge, needed, progress)

    def _test_side(self, users: Users, needed: NDArray[np.bool_], progress: Progress) -> TestSide:
        return TestSide.build(users, self.pool, self.rewriter, self.model, self.judge, needed, progress)

    def _people(self, split: str, count: int) -> Users:
        return make_users(
            split,
            count,
            attributes=len(self.pool.attributes),
            active=self.users.active,
            turns=self.users.turns,
            balance=self.users.balance,
            pools=self.prompts,
            seed=self.seed,
        )
