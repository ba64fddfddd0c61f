"""How groups of people answered OpinionQA's questions, whichever of its files it was counted from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Halves
from apm_lab.records import Group

__all__ = ["Tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """The arrays of a `Survey` before groups and questions without answers are taken out; `told` says whose they are.

    `refused` (G, Q) counts heads, as `answered` does, whether they are weighed or not. `people` (G,) counts those met
    at once, in one wave or by one question: at least so many belong to a group.
    """

    groups: tuple[Group, ...]
    shares: NDArray[np.float64]
    answered: NDArray[np.int64]
    refused: NDArray[np.float64]
    overall: NDArray[np.float64]
    overall_answered: NDArray[np.int64]
    people: NDArray[np.int64]
    halves: Halves
    told: str
    left_out: Mapping[str, int]
