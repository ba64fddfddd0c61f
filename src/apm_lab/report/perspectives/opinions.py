"""RQ1 and RQ3 on opinions as tables: alignment by group, what to read it beside, and what steering does to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from apm_lab.report.frame import Frame, frame
from apm_lab.studies.opinions import AlignedGroups, OpinionAudit
from apm_lab.studies.steered_opinions import NONE, SteeredOpinions

__all__ = ["EVERYBODY", "opinion_figures", "opinion_frames", "steered_figures", "steered_frames"]

EVERYBODY = "everybody"
_ENDS = 8  # best and worst groups that are printed

_ALIGNMENT = ("distance", "trait", "group", "people", "questions", "alignment", "low", "high")
_RANKED = (*_ALIGNMENT, "rank", "rank_low", "rank_high")


def opinion_frames(audit: OpinionAudit) -> list[Frame]:
    """Return the tables `alignment`, `references`, `temperature` and `left_out`."""
    own = audit.by_distance[audit.distance]
    rows = [row for aligned in audit.by_distance.values() for row in _alignment_rows(audit, aligned)]
    return [
        frame(
            "alignment",
            f"Alignment by {audit.distance}, {audit.survey.name}: the groups that come off best and worst",
            _RANKED,
            rows,
            {
                "group": "{trait}: {group}",
                "alignment": "{alignment:.3f}",
                "95%": "{low:.3f} {high:.3f}",
                "rank": "{rank:.1f}",
                "95% of rank": "{rank_low:.0f} {rank_high:.0f}",
                "people": "{people}",
                "questions": "{questions}",
            },
            chosen=_ends(rows, audit.distance),
            note=_notes(audit, own),
        ),
        frame(
            "references",
            f"To read it beside: alignment by {audit.distance}",
            ("row", "mean", "least", "largest", "everybody"),
            [(row.name, row.mean, row.least, row.largest, row.overall) for row in audit.references],
            {
                "": "{row}",
                "mean over groups": "{mean:.3f}",
                "least": "{least:.3f}",
                "largest": "{largest:.3f}",
                "with everybody": "{everybody:.3f}",
            },
        ),
        frame(
            "temperature",
            "The same rewards at other temperatures: how far alignment and the groups' ranks move",
            ("temperature", "everybody", "mean", "spearman"),
            [(step.temperature, step.overall, step.mean, step.spearman) for step in audit.curve],
            {
                "temperature": "{temperature:g}",
                "with everybody": "{everybody:.3f}",
                "mean over groups": "{mean:.3f}",
                "Spearman of ranks": "{spearman:.2f}",
            },
        ),
    ]


def _alignment_rows(audit: OpinionAudit, aligned: AlignedGroups) -> Iterator[tuple[Any, ...]]:
    survey = audit.survey
    yield (
        *(aligned.distance, "all", EVERYBODY, None, aligned.overall_questions),
        *(aligned.overall, aligned.overall_low, aligned.overall_high, None, None, None),
    )
    for place, row in enumerate(audit.kept):
        group = survey.groups[row]
        yield (
            *(aligned.distance, group.trait, group.value, survey.people[row], aligned.questions[place]),
            *(aligned.value[place], aligned.low[place], aligned.high[place]),
            *(aligned.rank[place], aligned.rank_low[place], aligned.rank_high[place]),
        )


def _ends(rows: Sequence[Sequence[Any]], distance: str) -> list[int]:
    """Return the places of everybody's row and of the best and worst groups under the distance, by rank."""
    own = [place for place, row in enumerate(rows) if row[0] == distance]
    ranked = [place for place in own[1:] if not np.isnan(rows[place][8])]
    ranked.sort(key=lambda place: (rows[place][8], place))
    shown = ranked if len(ranked) <= 2 * _ENDS else [*ranked[:_ENDS], *ranked[-_ENDS:]]
    return [own[0], *shown]


def _notes(audit: OpinionAudit, own: AlignedGroups) -> str:
    survey = audit.survey
    unranked = [survey.groups[row] for row, value in zip(audit.kept, own.value, strict=True) if np.isnan(value)]
    lines = [
        f"{len(audit.kept)} groups; all of them, and the other distances, are in alignment.parquet",
        *(f"left out, {count}: {reason}" for reason, count in survey.left_out.items()),
    ]
    if audit.small:
        names = ", ".join(f"{survey.groups[row].value} ({survey.people[row]})" for row in audit.small)
        lines.append(f"left out for too few respondents: {names}")
    if unranked:
        named = ", ".join(f"{group.trait}: {group.value}" for group in unranked)
        lines.append(f"without a question in common with the model: {named}")
    if audit.unknown:
        lines.append(f"questions without an opinion, some reward missing: {audit.unknown}")
    flat = sum(aligned.constant for aligned in audit.by_distance.values())
    if flat:
        lines.append(f"correlation: {flat} pairs of distributions with a flat one, taken as 0")
    return "\n".join(lines)


def opinion_figures(audit: OpinionAudit) -> dict[str, float | None]:
    """Return the headline figures: alignment with everybody and its interval, and its mean over groups."""
    own = audit.by_distance[audit.distance]
    return {
        "alignment": own.overall,
        "alignment_low": own.overall_low,
        "alignment_high": own.overall_high,
        "alignment_groups": audit.references[0].mean,
    }


def steered_frames(audit: OpinionAudit, steered: SteeredOpinions) -> list[Frame]:
    """Return the tables `steering_forms`, `steering` (by form and group) and `steering_questions`."""
    questions = [
        (form, question.id, steered.before[form][place], steered.after[form][place])
        for form in steered.forms
        for place, question in enumerate(audit.survey.questions)
    ]
    by_question = frame("steering_questions", "", ("form", "question", "before", "after"), questions, {})
    return [_by_form(steered), _by_group(audit, steered), by_question]


def _by_form(steered: SteeredOpinions) -> Frame:
    mean_ranks = [_mean(ranks) for ranks in steered.form_ranks]
    rows: list[tuple[Any, ...]] = [(NONE, *[None] * 3, mean_ranks[0], *[None] * 10)]
    for effect, rank in zip(steered.effects, mean_ranks[1:], strict=True):
        test = effect.test
        specific = effect.aligned - effect.others
        rows.append(
            (
                *(effect.form, effect.mean_gain, effect.mean_low, effect.mean_high, rank),
                *(_mean(specific), _mean(effect.spread)),
                *(test.n, test.statistic, test.z, test.p_value, test.effect, test.rank_biserial),
                *(test.shapiro, test.shapiro_p),
            )
        )
    names = ("form", "gain", "low", "high", "rank", "specific", "spread")
    tests = ("n", "statistic", "z", "p_value", "effect", "rank_biserial", "shapiro", "shapiro_p")
    shown = {
        "form": "{form}",
        "gain": "{gain:+.4f}",
        "95%": "{low:+.4f} {high:+.4f}",
        "mean rank": "{rank:.2f}",
        "over other values": "{specific:+.4f}",
        "s.d. over prompts": "{spread:.4f}",
        "Wilcoxon T": "{statistic:.0f}",
        "Z": "{z:+.2f}",
        "p": "{p_value:.2g}",
        "effect": "{effect:.3f}",
        "questions": "{n}",
    }
    note = (
        "gain: alignment with a group when the prompt names it, less that without a prompt; over other values: less "
        "that when the prompt names another value of the trait (no steering where it is 0)"
    )
    return frame("steering_forms", f"Steering, {len(steered.groups)} groups", (*names, *tests), rows, shown, note=note)


def _by_group(audit: OpinionAudit, steered: SteeredOpinions) -> Frame:
    rows = [
        (
            *(effect.form, audit.survey.groups[row].trait, audit.survey.groups[row].value),
            *(effect.unsteered[place], effect.aligned[place], effect.gain[place], effect.low[place]),
            *(effect.high[place], effect.others[place], effect.spread[place]),
            *(steered.form_ranks[0, place], steered.form_ranks[number + 1, place]),
        )
        for number, effect in enumerate(steered.effects)
        for place, row in enumerate(steered.groups)
    ]
    columns = ("form", "trait", "group", "unsteered", "alignment", "gain", "low", "high", "others", "spread")
    return frame(
        "steering",
        "Steering by group",
        (*columns, "rank_unsteered", "rank"),
        rows,
        {},
    )


def _mean(values: Any) -> float | None:  # noqa: ANN401 (an array)
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else None


def steered_figures(steered: SteeredOpinions) -> dict[str, float | None]:
    """Return each form's mean gain."""
    return {f"steering_gain_{effect.form}": effect.mean_gain for effect in steered.effects}
