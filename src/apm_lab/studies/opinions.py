"""RQ1, whose opinions a reward model rewards (RMP Sec. 6.1; SPEC 2).

Reads top to bottom: the model's opinion on every question, its alignment with every group under each distance, the
groups' ranks, and the rows that these figures are read beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Survey
from apm_lab.errors import DataError
from apm_lab.maths.agreement import ranks
from apm_lab.maths.distance import DISTANCES, Distance, constant_choices
from apm_lab.maths.opinion import Alignment, alignment, model_opinions, reward_sd
from apm_lab.maths.resampled import bounds, resampled_means
from apm_lab.maths.seeding import stream

__all__ = ["AlignedGroups", "Curve", "DistanceSettings", "OpinionAudit", "Reference", "audit_opinions", "kept_groups"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_TEMPERATURES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_RESAMPLES = 1000
_HALVES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceSettings:
    """`name`: null takes the data's own (`wasserstein` for ordered choices, else `jensen_shannon`).

    `positions`: of ordered choices; `rank` is 0, 1, 2 .. as in RMP Eq. 4, `dataset` the survey's own, as in OpinionQA.
    """

    name: Literal["jensen_shannon", "wasserstein", "euclidean", "correlation", "total_variation"] | None = None
    positions: Literal["rank", "dataset"] = "rank"

    def of(self, survey: Survey) -> Distance:
        """Return the distance for this survey."""
        return self.name or ("jensen_shannon" if survey.positions is None else "wasserstein")

    def at(self, survey: Survey) -> Array | None:
        """Return the positions of the choices, None for ranks."""
        return survey.positions if self.positions == "dataset" else None


@dataclass(frozen=True, slots=True)
class AlignedGroups:
    """Alignment with G groups under one distance, 95% bounds over resampled questions, and ranks with theirs.

    All are (G,); `value` is NaN where a group shares no question with the model, and then it has no rank. `overall`:
    with all respondents. `constant`: pairs of distributions one of which is flat, whose correlation was taken as 0.
    """

    distance: Distance
    value: Array
    low: Array
    high: Array
    questions: NDArray[np.int64]
    rank: Array
    rank_low: Array
    rank_high: Array
    overall: float | None
    overall_low: float | None
    overall_high: float | None
    overall_questions: int
    constant: int


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


@dataclass(frozen=True, slots=True)
class OpinionAudit:
    """What RQ1 says of one model; `kept` (G,) are the survey's groups with enough respondents, in that order.

    `unknown` counts questions that had no opinion since some reward is missing.
    """

    survey: Survey
    kept: tuple[int, ...]
    small: tuple[int, ...]
    distance: Distance
    opinions: Array
    known: Mask
    unknown: int
    by_distance: dict[Distance, AlignedGroups]
    references: tuple[Reference, ...]
    curve: tuple[Curve, ...]


def audit_opinions(
    survey: Survey,
    rewards: Array,
    settings: DistanceSettings,
    *,
    temperature: float,
    standardize: bool,
    min_respondents: int,
    seed: int,
) -> OpinionAudit:
    """Return the audit of rewards (Q, K), NaN where there is none.

    DataError where no question has an opinion, no group has enough respondents, or the two share no question.
    """
    kept, small = kept_groups(survey, min_respondents)
    scaled = rewards / reward_sd(rewards, survey.real) if standardize else rewards
    opinions, known = model_opinions(scaled, survey.real, temperature)
    if not known.any():
        raise DataError(f"{survey.name}: the reward model rated no question whole, so there is no opinion to compare")
    distance, at = settings.of(survey), settings.at(survey)
    people = _of_groups(survey, kept)
    everybody = survey.overall, survey.overall_answered > 0
    names = [name for name in DISTANCES if name != "wasserstein" or survey.positions is not None or name == distance]
    aligned = {name: _aligned(name, (opinions, known), people, everybody, survey.real, at, seed) for name in names}
    if all(each.overall is None and np.isnan(each.value).all() for each in aligned.values()):
        raise DataError(f"{survey.name}: no question of two choices or more has both an opinion and answers of people")
    return OpinionAudit(
        survey,
        kept,
        small,
        distance,
        opinions,
        known,
        int((~known).sum()),
        aligned,
        tuple(_references(survey, kept, known, aligned[distance], distance, at, seed)),
        tuple(_curve(survey, kept, scaled, distance, at, temperature)),
    )


def kept_groups(survey: Survey, min_respondents: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the groups with at least that many respondents, and those with fewer.

    DataError where there is none of the former.
    """
    enough = survey.people >= max(min_respondents, 1)
    if not enough.any():
        most = int(survey.people.max(initial=0))
        raise DataError(
            f"{survey.name}: no group has {min_respondents} respondents (the largest has {most}); "
            "set study.min_respondents lower, or give more data"
        )
    return tuple(np.flatnonzero(enough).tolist()), tuple(np.flatnonzero(~enough).tolist())


def _of_groups(survey: Survey, kept: Sequence[int]) -> tuple[Array, Mask]:
    rows = list(kept)
    return survey.shares[rows], survey.answered[rows] > 0


def _aligned(
    name: Distance,
    model: tuple[Array, Mask],
    people: tuple[Array, Mask],
    everybody: tuple[Array, Mask],
    real: Mask,
    at: Array | None,
    seed: int,
) -> AlignedGroups:
    joined = np.concatenate([people[0], everybody[0][None]]), np.concatenate([people[1], everybody[1][None]])
    found = alignment(name, model, joined, real, at)
    value = _values(found)
    samples = resampled_means(found.by_question, found.counted, _RESAMPLES, stream(seed, "questions", name))
    low, high = bounds(samples)
    rank_low, rank_high = bounds(_ranked(samples[:, :-1]))
    flat = constant_choices(model[0], real) | constant_choices(joined[0], real) if name == "correlation" else None
    return AlignedGroups(
        name,
        value[:-1],
        low[:-1],
        high[:-1],
        found.questions[:-1],
        _ranked(value[None, :-1])[0],
        rank_low,
        rank_high,
        _figure(value[-1]),
        _figure(low[-1]),
        _figure(high[-1]),
        int(found.questions[-1]),
        0 if flat is None else int((flat & found.counted).sum()),
    )


def _values(found: Alignment) -> Array:
    """Return the alignments, NaN where the two have no question in common."""
    return np.where(found.questions > 0, found.value, np.nan)


def _ranked(values: Array) -> Array:
    """Return ranks (B, G) of values (B, G), 1 for the largest; NaN for those without a value."""
    known = ~np.isnan(values)
    return np.where(known, ranks(np.where(known, values, -np.inf)), np.nan)


def _figure(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _row(name: str, values: Array, overall: Array | None) -> Reference:
    there = values[~np.isnan(values)]
    if not len(there):
        return Reference(name, None, None, None, None if overall is None else _figure(overall.item()))
    least, largest = float(there.min()), float(there.max())
    return Reference(
        name, float(there.mean()), least, largest, None if overall is None else _figure(np.float64(overall).item())
    )


def _references(
    survey: Survey,
    kept: Sequence[int],
    known: Mask,
    model: AlignedGroups,
    distance: Distance,
    at: Array | None,
    seed: int,
) -> list[Reference]:
    """Return the model's row and those beside it: a flat model, groups among each other, people by halves.

    All are over the questions on which the model has an opinion, `known` (Q,).
    """
    (shares, answered), real = _of_groups(survey, kept), survey.real
    people = shares, answered & known
    everybody = survey.overall, (survey.overall_answered > 0) & known
    flat = model_opinions(np.zeros(real.shape), real)[0], known
    uniform = _values(alignment(distance, flat, people, real, at))
    found = [
        replace(_row("reward model", model.value, None), overall=model.overall),
        _row("uniform model", uniform, _values(alignment(distance, flat, everybody, real, at))),
    ]
    if survey.overall_answered.max(initial=0) > 1:  # else everybody is one person, and a group that person
        # As in Santurkar et al. 2023: how well single groups stand for everybody, on average and at worst.
        found.append(_row("a group for everybody", _values(alignment(distance, people, everybody, real, at)), None))
    if survey.halves is not None:
        rng = stream(seed, "halves")
        rows = list(kept)
        halves = []
        for _ in range(_HALVES):
            one, other = survey.halves(rng)
            halves.append(
                _values(
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


def _curve(
    survey: Survey, kept: Sequence[int], rewards: Array, distance: Distance, at: Array | None, temperature: float
) -> list[Curve]:
    """Return alignment at other temperatures: absolute alignment is largely a statement about the rewards' scale."""
    people, everybody = _of_groups(survey, kept), (survey.overall, survey.overall_answered > 0)
    joined = np.concatenate([people[0], everybody[0][None]]), np.concatenate([people[1], everybody[1][None]])
    steps = sorted({*(temperature * factor for factor in _TEMPERATURES)})
    values = {
        step: _values(alignment(distance, model_opinions(rewards, survey.real, step), joined, survey.real, at))
        for step in steps
    }
    there = ~np.isnan(values[temperature][:-1])
    own = _ranked(values[temperature][None, :-1])[0][there]
    found = []
    for step, value in values.items():
        groups = value[:-1][there]
        moved = _ranked(groups[None])[0]
        same = float(np.corrcoef(own, moved)[0, 1]) if len(own) > 1 and np.ptp(own) > 0 and np.ptp(moved) > 0 else None
        mean = float(groups.mean()) if len(groups) else None
        found.append(Curve(step, _figure(value[-1]), mean, same))
    return found
