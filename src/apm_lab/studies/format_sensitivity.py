"""Whether the form of a prompt changes how a reward model ranks the choices (RMP App. B.3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.agreement import agreement, ranks
from apm_lab.records import ChoiceQuestion
from apm_lab.studies.question_format import FormatSettings, alterations

__all__ = ["AXES", "FormatEffect", "format_effect"]

Array = NDArray[np.float64]
AXES = ("display", "choices", "order", "verbose_question", "verbose_choice", "verbose_answer")


@dataclass(frozen=True, slots=True)
class FormatEffect:
    """One question under F formats: how far they rank its K choices alike.

    `kendall_w`: of the formats as raters of the choices, 1 where all rank them alike. `friedman`, `p_value`: RMP's test
    with formats as treatments and choices as blocks, of the ranks; it can hardly reject, since every format's ranks
    have the same sum. `same_top`: share of formats whose most rewarded choice is that of the paper's form, ties apart.
    `by_axis`: mean Spearman over pairs of formats that differ in this axis alone, None where there is none. `missing`:
    formats with a reward missing, left out.
    """

    question: str
    formats: int
    missing: int
    kendall_w: float | None
    friedman: float | None
    p_value: float | None
    same_top: float | None
    by_axis: Mapping[str, float | None]


def format_effect(question: ChoiceQuestion, rewards: Array) -> FormatEffect:
    """Return the effect of the question's `alterations` on its rewards (F, K), NaN where there is none."""
    forms = list(alterations(question))
    known: NDArray[np.bool_] = np.all(np.isfinite(rewards), axis=1)
    kept = [form for form, there in zip(forms, known.tolist(), strict=True) if there]
    values = rewards[known]
    K = rewards.shape[1]
    missing = int((~known).sum())
    if len(kept) < 2 or K < 2:
        return FormatEffect(question.id, len(kept), missing, None, None, None, None, dict.fromkeys(AXES))
    ranked = ranks(values)
    alike = agreement(values)
    friedman, p_value = _friedman(ranked)
    same = _same_top(kept, values)
    return FormatEffect(
        question.id,
        len(kept),
        missing,
        alike.kendall_w,
        friedman,
        p_value,
        same,
        {axis: _along(axis, kept, alike.pairs) for axis in AXES},
    )


def _same_top(forms: Sequence[FormatSettings], values: Array) -> float | None:
    """Return the share of formats with one most rewarded choice in which it is that of the paper's form.

    None where the paper's form has a missing reward, or a tie.
    """
    top = values == values.max(axis=1, keepdims=True)
    single = top.sum(axis=1) == 1
    paper = next((row for row, form in enumerate(forms) if form == FormatSettings()), None)
    if paper is None or not single[paper]:
        return None
    return float(np.mean(top[single].argmax(axis=1) == top[paper].argmax()))


def _friedman(ranked: Array) -> tuple[float | None, float | None]:
    """Return Friedman's test with formats (F) as treatments and choices as blocks, None below three formats."""
    from scipy.stats import friedmanchisquare

    if len(ranked) < 3 or not np.ptp(ranked, axis=0).any():
        return None, None
    told = friedmanchisquare(*ranked)
    return float(told.statistic), float(told.pvalue)


def _along(axis: str, forms: Sequence[FormatSettings], pairs: Array) -> float | None:
    """Return the mean of the pairs' correlations (F, F) over formats that differ in this axis alone."""
    rest = [tuple(getattr(form, name) for name in AXES if name != axis) for form in forms]
    own = [getattr(form, axis) for form in forms]
    if axis == "display":  # without the choices shown there is no style, order or verbosity of theirs
        rest = [(form.verbose_question, form.verbose_answer) for form in forms]
    found = [
        pairs[one, other]
        for one in range(len(forms))
        for other in range(one)
        if rest[one] == rest[other] and own[one] != own[other] and np.isfinite(pairs[one, other])
    ]
    return float(np.mean(found)) if found else None
