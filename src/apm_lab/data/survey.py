"""What people answered: questions with choices, and how groups of respondents distribute over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apm_lab.records import ChoiceQuestion, Group

__all__ = ["Halves", "Survey", "SurveySource"]

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
