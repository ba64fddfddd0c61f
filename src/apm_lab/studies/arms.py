"""What one arm did in one mapping draw, kept as plain arrays so that a run can be continued from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.outcomes import differences
from apm_lab.maths.preference import weighed_sum
from apm_lab.methods.routing_oracle import best_styles
from apm_lab.records import Response
from apm_lab.studies.world import TestSide

__all__ = ["OWN_TEXT", "ArmDraw", "judge_arm"]

OWN_TEXT = -1  # the column of a response that is a text of the method's own


@dataclass(frozen=True, slots=True)
class ArmDraw:
    """One arm in one draw, per test user (U,).

    `column`: the response given (a style's number, S neutral, S + 1 twin, -1 a text of its own); `difference`: reward
    less the neutral response's, NaN where not `known`; `reward`, `neutral`: both rewards; `styled`: the response is in
    a style, and `hit`: in one of the user's true top styles. `dropped` () counts what the method could not learn from
    (training users without the ratings it needs, or prompts that give no pair) and `truncated` () what was cut:
    histories, or examples left out of a context.
    """

    column: NDArray[np.int64]
    difference: NDArray[np.float64]
    known: NDArray[np.bool_]
    reward: NDArray[np.float64]
    neutral: NDArray[np.float64]
    styled: NDArray[np.bool_]
    hit: NDArray[np.bool_]
    dropped: NDArray[np.int64]
    truncated: NDArray[np.int64]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def judge_arm(
    side: TestSide,
    preferences: NDArray[np.float64],
    responses: Sequence[Response],
    counts: Mapping[str, int] | None = None,
) -> ArmDraw:
    """Return how `responses` (U) fare with users of these preferences (U, M), against the neutral responses.

    `counts`: the method's own `dropped` and `truncated`, 0 where it has none.
    """
    columns = np.array([_column(side, response) for response in responses], dtype=np.int64)
    neutral = side.scores_of(np.full(len(columns), side.neutral), preferences)
    values, known_scores = side.scores_of(np.where(columns == OWN_TEXT, side.neutral, columns), preferences)
    own = np.flatnonzero(columns == OWN_TEXT)
    if own.size:
        texts = [responses[user].text or "" for user in own.tolist()]
        values[own], known_scores[own] = side.scores_of_texts(texts, preferences[own])
    scores = values, known_scores
    difference, known = differences(preferences, scores[0], scores[1], neutral[0], neutral[1])
    styled = (columns >= 0) & (columns < side.neutral)
    best = best_styles(preferences)[np.arange(len(columns)), np.where(styled, columns, 0)]
    return ArmDraw(
        columns,
        difference,
        known,
        weighed_sum(preferences, *scores)[0],
        weighed_sum(preferences, *neutral)[0],
        styled,
        styled & best,
        *(np.array((counts or {}).get(name, 0), dtype=np.int64) for name in ("dropped", "truncated")),
    )


def _column(side: TestSide, response: Response) -> int:
    if response.text is not None:
        return OWN_TEXT
    return side.neutral + response.sample if response.style is None else response.style.index
