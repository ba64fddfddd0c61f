"""What an alignment is read beside: other rows, and the same rewards at other temperatures (SPEC 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Survey
from apm_lab.maths.distance import Distance
from apm_lab.maths.opinion import alignment, model_opinions
from apm_lab.maths.seeding import stream
from apm_lab.studies.group_alignment import figure, known_values, of_groups, ranked

__all__ = ["Curve", "Reference", "reference_rows", "temperature_curve"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_TEMPERATURES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_HALVES = 20


@dataclass(frozen=True, slots=True)
class Reference:
    """A row to read a model's alignment beside: its mean over groups, the least and largest, and with everybody."""

    name: str
    mean: float | None
    least: float | None
    largest: float | None
    overall: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """What one reward temperature does: alignment with everybody, its mean over groups, and how the ranks hold."""

    temperature: float
    overall: float | None
    mean: float | None
    spearman: float | None


def _row(name: str, values: Array, overall: Array | None) -> Reference:
    there = values[~np.isnan(values)]
    if not len(there):
        return Reference(name, None, None, None, None if overall is None else figure(overall.item()))
    least, largest = float(there.min()), float(there.max())
    return Reference(
        name, float(there.mean()), least, largest, None if overall is None else figure(np.float64(overall).item())
    )


def reference_rows(
    survey: Survey,
    kept: Sequence[int],
    known: Mask,
    aligned: Array,
    overall: float | None,
    distance: Distance,
    at: Array | None,
    seed: int,
) -> list[Reference]:
    """Return the model's row and those beside it: a flat model, groups among each other, people by halves.

    All are over the questions on which the model has an opinion, `known` (Q,); `aligned` (G,) and `overall` are its
    own alignments.
    """
    (shares, answered), real = of_groups(survey, kept), survey.real
    people = shares, answered & known
    everybody = survey.overall, (survey.overall_answered > 0) & known
    flat = model_opinions(np.zeros(real.shape), real)[0], known
    uniform = known_values(alignment(distance, flat, people, real, at))
    found = [
        replace(_row("reward model", aligned, None), overall=overall),
        _row("uniform model", uniform, known_values(alignment(distance, flat, everybody, real, at))),
    ]
    if survey.overall_answered.max(initial=0) > 1:  # else everybody is one person, and a group that person
        # As in Santurkar et al. 2023: how well single groups stand for everybody, on average and at worst.
        found.append(
            _row("a group for everybody", known_values(alignment(distance, people, everybody, real, at)), None)
        )
    if survey.halves is not None:
        rng = stream(seed, "halves")
        rows = list(kept)
        halves = []
        for _ in range(_HALVES):
            one, other = survey.halves(rng)
            halves.append(
                known_values(
                    alignment(
                        distance, (one[0][rows], one[1][rows] & known), (other[0][rows], other[1][rows]), real, at
                    )
                )
            )
        stacked = np.stack(halves)
        drawn = (~np.isnan(stacked)).sum(axis=0)
        mean = np.where(drawn > 0, np.nansum(stacked, axis=0) / np.maximum(drawn, 1), np.nan)
        found.append(_row("half a group against the other half", mean, None))
    return found


def temperature_curve(
    survey: Survey, kept: Sequence[int], rewards: Array, distance: Distance, at: Array | None, temperature: float
) -> list[Curve]:
    """Return alignment at other temperatures: absolute alignment is largely a statement about the rewards' scale."""
    people, everybody = of_groups(survey, kept), (survey.overall, survey.overall_answered > 0)
    joined = np.concatenate([people[0], everybody[0][None]]), np.concatenate([people[1], everybody[1][None]])
    steps = sorted({*(temperature * factor for factor in _TEMPERATURES)})
    values = {
        step: known_values(alignment(distance, model_opinions(rewards, survey.real, step), joined, survey.real, at))
        for step in steps
    }
    there = ~np.isnan(values[temperature][:-1])
    own = ranked(values[temperature][None, :-1])[0][there]
    found = []
    for step, value in values.items():
        groups = value[:-1][there]
        moved = ranked(groups[None])[0]
        same = float(np.corrcoef(own, moved)[0, 1]) if len(own) > 1 and np.ptp(own) > 0 and np.ptp(moved) > 0 else None
        mean = float(groups.mean()) if len(groups) else None
        found.append(Curve(step, figure(value[-1]), mean, same))
    return found
