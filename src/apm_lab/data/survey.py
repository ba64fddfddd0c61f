"""What people answered: questions with choices, and how groups of respondents distribute over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import DataError
from apm_lab.records import ChoiceQuestion, Group

__all__ = ["Halves", "Survey", "SurveySource", "require_sound"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


class Halves(Protocol):
    """Draws two halves of a survey's respondents: what people agree with themselves, by chance of who was asked."""

    def __call__(self, rng: np.random.Generator, /) -> tuple[tuple[Array, Mask], tuple[Array, Mask]]:
        """Return per half the groups' distributions (G, Q, K), and which questions it has answers to (G, Q)."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """Q questions of up to K choices, and the answers of G groups.

    `real` (Q, K): which choices a question has. `positions` (Q, K): the survey's own places of the choices on a scale,
    None where choices have no order. `shares` (G, Q, K): D_G, weighted shares of the choices without refusals, zero
    where nobody answered; `answered` (G, Q): how many people did; `refused` (G, Q): how many refused. `overall`
    (Q, K), `overall_answered` (Q,): of all respondents, D_R. `people` (G,): how many belong to a group. `halves` is
    None where a question has too few respondents to split. `left_out`: what was in the files and is not here, counted
    by reason.
    """

    name: str
    questions: tuple[ChoiceQuestion, ...]
    real: Mask
    positions: Array | None
    groups: tuple[Group, ...]
    shares: Array
    answered: Counts
    refused: Array
    overall: Array
    overall_answered: Counts
    people: Counts
    halves: Halves | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class SurveySource(Protocol):
    """A data set of people's answers."""

    def read(self) -> Survey:
        """Return the survey; DataError names file, line and fault."""
        ...


def require_sound(survey: Survey, where: str) -> None:
    """Return nothing where a survey is what it should be, else raise DataError naming the first fault.

    Shapes fit, ids of questions and groups differ, `real` are the questions' choices, and shares are distributions over
    these wherever somebody answered.
    """
    Q, G, K = len(survey.questions), len(survey.groups), survey.real.shape[-1]
    shapes = {"real": (Q, K), "positions": (Q, K), "shares": (G, Q, K), "answered": (G, Q), "overall": (Q, K)}
    for name, shape in (shapes | {"overall_answered": (Q,), "people": (G,)}).items():
        array = getattr(survey, name)
        if array is not None and array.shape != shape:
            raise DataError(f"{where}: {name} is {array.shape}, expected {shape} for {Q} questions and {G} groups")
    for what, names in (("question", [each.id for each in survey.questions]), ("group", list(survey.groups))):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise DataError(f"{where}: {what} {twice[0]!r} is there twice; give every {what} a name of its own")
    for question, real in zip(survey.questions, survey.real, strict=True):
        if real.tolist() != [place < len(question.choices) for place in range(K)]:
            raise DataError(
                f"{where}: `real` of question {question.id} does not say its {len(question.choices)} choices"
            )
    _require_distributions(survey.overall, survey.overall_answered > 0, survey, where)
    for group, shares, answered in zip(survey.groups, survey.shares, survey.answered > 0, strict=True):
        _require_distributions(shares, answered, survey, f"{where}, {group.trait} {group.value}")


def _require_distributions(shares: Array, answered: Mask, survey: Survey, where: str) -> None:
    """Return nothing where shares (Q, K) are distributions over the choices of the questions that were answered."""
    real = np.where(survey.real, shares, 0.0)
    sums = real.sum(axis=1)
    fine = np.isclose(sums, 1.0, atol=1e-6) & (shares >= 0).all(axis=1) & np.isclose(shares.sum(axis=1), sums)
    if (answered & ~fine).any():
        place = int(np.argmax(answered & ~fine))
        raise DataError(
            f"{where}: shares of question {survey.questions[place].id} are {shares[place].tolist()}, expected "
            "none below 0, a sum of 1, and 0 beyond its choices"
        )
