"""A random part of what is audited: a smaller audit of the same data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Halves, Survey
from apm_lab.maths.seeding import stream
from apm_lab.studies.perspectives import Audited

__all__ = ["audited_ids", "random_part"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]


def audited_ids(data: Audited) -> list[str]:
    """Return the ids of the questions of a survey, or of the items."""
    return [each.id for each in (data.questions if isinstance(data, Survey) else data)]


def random_part(data: Audited, most: int | None, seed: int, always: Collection[str] = ()) -> Audited:
    """Return at most `most` of the questions or items, in the data's own order; all for None.

    They are drawn by the stream ("most questions"); those whose ids are in `always` are among them. `left_out` of a
    survey counts the others; its groups and their people stay as they are, also where a group answered no question
    that is left.
    """
    ids = audited_ids(data)
    if most is None or most >= len(ids):
        return data
    places = _drawn(ids, most, seed, always)
    return _part(data, places) if isinstance(data, Survey) else [data[place] for place in places.tolist()]


def _drawn(ids: Sequence[str], most: int, seed: int, always: Collection[str]) -> Places:
    """Return the places drawn, in order: the first ones of a random order in which `always` comes before all others."""
    order = stream(seed, "most questions").permutation(len(ids))
    later = np.array([ids[place] not in always for place in order])
    return np.sort(order[np.argsort(later, kind="stable")][: max(most, int((~later).sum()))])


def _part(survey: Survey, places: Places) -> Survey:
    real = survey.real[places]
    # No wider than the widest question left, which is how wide its rewards will be.
    K = int(real.sum(axis=1).max())
    left_out = {**survey.left_out, "question left out by study.most_questions": len(survey.questions) - len(places)}
    return replace(
        survey,
        questions=tuple(survey.questions[place] for place in places.tolist()),
        real=real[:, :K],
        positions=None if survey.positions is None else survey.positions[places, :K],
        shares=survey.shares[:, places, :K],
        answered=survey.answered[:, places],
        refused=survey.refused[:, places],
        overall=survey.overall[places, :K],
        overall_answered=survey.overall_answered[places],
        halves=None if survey.halves is None else _halves(survey.halves, places, K),
        left_out=left_out,
    )


def _halves(whole: Halves, places: Places, K: int) -> Halves:
    def of_part(rng: np.random.Generator, /) -> tuple[tuple[Array, Mask], tuple[Array, Mask]]:
        (one, one_has), (other, other_has) = whole(rng)
        return (
            (one[:, places, :K], one_has[:, places]),
            (other[:, places, :K], other_has[:, places]),
        )

    return of_part
