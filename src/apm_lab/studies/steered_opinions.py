"""RQ3 on opinions: whether a steering prompt brings a reward model nearer to the group it names (RMP Sec. 6.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.steering import SteeringPrompt
from apm_lab.data.survey import Survey
from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.maths.agreement import ranks
from apm_lab.maths.distance import Distance
from apm_lab.maths.opinion import alignment, model_opinions
from apm_lab.maths.resampled import bounds, resampled_means
from apm_lab.maths.seeding import stream
from apm_lab.maths.signed_rank import SignedRank, signed_rank
from apm_lab.records import Group

__all__ = ["NONE", "FormEffect", "SteeredOpinions", "paired_questions", "prompts_for", "steered_opinions"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
NONE = "none"
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class FormEffect:
    """What one form of steering does to S groups; all (S,), NaN where nothing can be compared.

    `aligned`: alignment of the model that is steered to a group with that group's people; `unsteered`: without a
    prompt; `gain`, `low`, `high`: the difference with its 95% bounds over resampled questions. `others`: the mean
    alignment with the group when the prompt names another value of its trait: gain that is not over `others` is no
    steering towards the group. `spread`: s.d. over all S prompts of the alignment with the group (RMP Fig. 10).
    `test`: over questions, means over groups, steered against not (RMP App. F.3).
    """

    form: str
    aligned: Array
    unsteered: Array
    gain: Array
    low: Array
    high: Array
    others: Array
    spread: Array
    mean_gain: float | None
    mean_low: float | None
    mean_high: float | None
    test: SignedRank


@dataclass(frozen=True, slots=True)
class SteeredOpinions:
    """Every form's effect on the same `groups` (S of them, places in the survey).

    `form_ranks` (F + 1, S): ranks of no steering and each form for a group, 1 for the best aligned (RMP Fig. 11).
    `before`, `after`: by form, the questions' mean alignments (Q,) that `test` compares, NaN where there is none.
    """

    groups: tuple[int, ...]
    forms: tuple[str, ...]
    effects: tuple[FormEffect, ...]
    form_ranks: Array
    before: Mapping[str, Array]
    after: Mapping[str, Array]


def prompts_for(
    survey: Survey, prompts: Sequence[SteeringPrompt], traits: Sequence[str] | None
) -> tuple[SteeringPrompt, ...]:
    """Return the prompts that name one of the survey's groups: no figure needs another.

    ConfigError where one of the `traits` that are asked for has no such prompt, or there is no prompt left.
    """
    own = {group.trait for group in survey.groups}
    kept = tuple(prompt for prompt in prompts if prompt.group in survey.groups)
    steerable = {prompt.group.trait for prompt in kept}
    for trait in traits or ():
        if trait not in steerable:
            raise ConfigError(f"steering.traits: {survey.name} has no groups of {trait}{did_you_mean(trait, own)}")
    if prompts and not kept:
        raise ConfigError(
            f"steering: no prompt names a group of {survey.name}, whose traits are {', '.join(sorted(own))}; "
            "take steering=none"
        )
    return kept


def steered_opinions(
    survey: Survey,
    kept: Sequence[int],
    prompts: Sequence[tuple[str, Group]],
    steered: Array,
    unsteered: Array,
    distance: Distance,
    at: Array | None,
    *,
    temperature: float,
    seed: int,
) -> SteeredOpinions | None:
    """Return the effects of steering `prompts` (form, group), whose rewards are `steered` (P, Q, K).

    `unsteered` (Q, K) are the rewards without a prompt. Both are scaled already. Groups without people among the
    survey's `kept` ones, or without a prompt of every form, are left out; None where none is left.
    """
    forms = tuple(dict.fromkeys(form for form, _ in prompts))
    place = {prompt: number for number, prompt in enumerate(prompts)}
    groups = [row for row in kept if all((form, survey.groups[row]) in place for form in forms)]
    if not groups:
        return None
    named = [survey.groups[row] for row in groups]
    people = survey.shares[groups], survey.answered[groups] > 0
    base = alignment(distance, model_opinions(unsteered, survey.real, temperature), people, survey.real, at)
    effects, before, after = [], {}, {}
    for form in forms:
        rows = [place[form, group] for group in named]
        opinions, known = model_opinions(steered[rows], survey.real, temperature)
        found = alignment(distance, (opinions[:, None], known[:, None]), people, survey.real, at)
        own = np.arange(len(groups))
        counted = found.counted[own, own] & base.counted
        before[form], after[form] = paired_questions(base.by_question, found.by_question[own, own], counted)
        value = np.where(found.questions > 0, found.value, np.nan)
        effects.append(
            _effect(form, named, value, found.by_question[own, own], base.by_question, counted, before, after, seed)
        )
    table = np.stack([effects[0].unsteered, *(effect.aligned for effect in effects)])
    there = ~np.isnan(table).any(axis=0)
    form_ranks = np.full(table.shape, np.nan)
    form_ranks[:, there] = ranks(table[:, there].T).T
    return SteeredOpinions(tuple(groups), forms, tuple(effects), form_ranks, before, after)


def paired_questions(base: Array, steered: Array, counted: Mask) -> tuple[Array, Array]:
    """Return each question's mean over groups (Q,) of alignments (S, Q) before and after; NaN where no group has it."""
    count = counted.sum(axis=0)
    means = [
        np.divide(np.where(counted, part, 0.0).sum(axis=0), count, out=np.full(len(count), np.nan), where=count > 0)
        for part in (base, steered)
    ]
    return means[0], means[1]


def _effect(
    form: str,
    groups: Sequence[Group],
    value: Array,
    steered: Array,
    base: Array,
    counted: Mask,
    before: Mapping[str, Array],
    after: Mapping[str, Array],
    seed: int,
) -> FormEffect:
    samples = resampled_means(steered - base, counted, _RESAMPLES, stream(seed, "questions", "steering"))
    low, high = bounds(samples)
    with_count = counted.sum(axis=1)
    means = [
        np.divide(
            np.where(counted, part, 0.0).sum(axis=1), with_count, out=np.full(len(groups), np.nan), where=with_count > 0
        )
        for part in (base, steered)
    ]
    gain = means[1] - means[0]
    there = ~np.isnan(gain)
    drawn = samples[:, there]
    known = (~np.isnan(drawn)).sum(axis=1)  # groups with a question among those drawn
    means_drawn = np.divide(np.nansum(drawn, axis=1), known, out=np.full(len(known), np.nan), where=known > 0)
    overall = bounds(means_drawn) if there.any() else None
    asked = ~np.isnan(before[form])
    return FormEffect(
        form,
        means[1],
        means[0],
        gain,
        low,
        high,
        _others(groups, value),
        np.where(np.isnan(value).any(axis=0), np.nan, value.std(axis=0, ddof=1) if len(value) > 1 else np.nan),
        float(gain[there].mean()) if there.any() else None,
        None if overall is None else float(overall[0]),
        None if overall is None else float(overall[1]),
        signed_rank(before[form][asked], after[form][asked]),
    )


def _others(groups: Sequence[Group], value: Array) -> Array:
    """Return for each group (S,) the mean of value (S, S) over prompts that name another value of its trait."""
    found = np.full(len(groups), np.nan)
    for place, group in enumerate(groups):
        rows = [row for row, other in enumerate(groups) if other.traits == group.traits and row != place]
        if rows:
            found[place] = value[rows, place].mean()
    return found
