"""RQ1, whose opinions a reward model rewards (RMP Sec. 6.1; SPEC 2).

Reads top to bottom: the model's opinion on every question, its alignment with every group under each distance, the
groups' ranks, and the rows that these figures are read beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.survey import Survey
from apm_lab.errors import DataError
from apm_lab.maths.distance import DISTANCES, Distance, constant_choices, rank_positions
from apm_lab.maths.opinion import alignment, model_opinions, reward_sd
from apm_lab.maths.resampled import bounds, resampled_means
from apm_lab.maths.seeding import stream
from apm_lab.studies.group_alignment import figure, known_values, of_groups, ranked
from apm_lab.studies.opinion_references import Curve, Reference, reference_rows, temperature_curve

__all__ = ["AlignedGroups", "Curve", "DistanceSettings", "OpinionAudit", "Reference", "audit_opinions", "kept_groups"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_RESAMPLES = 1000


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
class OpinionAudit:
    """What RQ1 says of one model; `kept` (G,) are the survey's groups with enough respondents, in that order.

    `positions` (Q, K): the places of the choices that distances used. `unknown` counts questions that had no opinion
    since some reward is missing.
    """

    survey: Survey
    kept: tuple[int, ...]
    small: tuple[int, ...]
    distance: Distance
    positions: Array
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
    people = of_groups(survey, kept)
    everybody = survey.overall, survey.overall_answered > 0
    names = [name for name in DISTANCES if name != "wasserstein" or survey.positions is not None or name == distance]
    aligned = {name: _aligned(name, (opinions, known), people, everybody, survey.real, at, seed) for name in names}
    if all(each.overall is None and np.isnan(each.value).all() for each in aligned.values()):
        raise DataError(f"{survey.name}: no question of two choices or more has both an opinion and answers of people")
    own = aligned[distance]
    return OpinionAudit(
        survey,
        kept,
        small,
        distance,
        rank_positions(survey.real) if at is None else at,
        opinions,
        known,
        int((~known).sum()),
        aligned,
        tuple(reference_rows(survey, kept, known, own.value, own.overall, distance, at, seed)),
        tuple(temperature_curve(survey, kept, scaled, distance, at, temperature)),
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
    value = known_values(found)
    samples = resampled_means(found.by_question, found.counted, _RESAMPLES, stream(seed, "questions", name))
    low, high = bounds(samples)
    rank_low, rank_high = bounds(ranked(samples[:, :-1]))
    flat = constant_choices(model[0], real) | constant_choices(joined[0], real) if name == "correlation" else None
    return AlignedGroups(
        name,
        value[:-1],
        low[:-1],
        high[:-1],
        found.questions[:-1],
        ranked(value[None, :-1])[0],
        rank_low,
        rank_high,
        figure(value[-1]),
        figure(low[-1]),
        figure(high[-1]),
        int(found.questions[-1]),
        0 if flat is None else int((flat & found.counted).sum()),
    )
