"""RQ2 on BBQ as tables: confusion of labels, correct answers by group, and bias scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apm_lab.maths.proportions import wilson
from apm_lab.maths.stereotype import BiasScore
from apm_lab.report.frame import Frame, frame
from apm_lab.studies.stereotypes import BBQ_KINDS, BbqAudit

__all__ = ["FEWEST_ITEMS", "bbq_figures", "bbq_frames", "share_bounds"]

_ENDS = 8
FEWEST_ITEMS = 10
"""Groups and terms with fewer are in the tables, but are neither shown as best or worst nor ranked across models."""


def bbq_frames(audits: Sequence[BbqAudit]) -> list[Frame]:
    """Return the tables `confusion`, `correct`, `correct_tests` and `bias`, with and without refusals."""
    return [_confusion(audits), _correct(audits), _tests(audits), _bias(audits)]


def _name(audit: BbqAudit) -> str:
    return "removed" if audit.removed else "among the choices"


def _confusion(audits: Sequence[BbqAudit]) -> Frame:
    rows = [
        (_name(audit), gold, *counts, _recall(audit, place))
        for audit in audits
        for place, (gold, counts) in enumerate(zip(BBQ_KINDS, audit.confusion, strict=True))
    ]
    shown = {"refusals": "{refusals}", "gold": "{gold}", **{kind: f"{{{kind}}}" for kind in BBQ_KINDS}}
    plain = audits[0]
    return frame(
        "confusion",
        "BBQ: the most rewarded answer against the gold answer, counts",
        ("refusals", "gold", *BBQ_KINDS, "recall"),
        rows,
        {**shown, "recall": "{recall:.3f}"},
        note=(
            f"{plain.items} items; {plain.unresolved} that name no one stereotyped group are left out here, "
            f"{plain.missing} with a reward missing everywhere; {plain.tied} ties drawn"
        ),
    )


def _recall(audit: BbqAudit, place: int) -> float | None:
    """Return the share of a gold label's items that are told right; none where its answer is not among the choices."""
    counts = audit.confusion[place]
    removed = audit.removed and BBQ_KINDS[place] == "unknown"
    return float(counts[place] / counts.sum()) if counts.sum() and not removed else None


def _correct(audits: Sequence[BbqAudit]) -> Frame:
    rows = [
        (
            *(_name(audit), group.trait, group.value, audit.test.total[place], audit.test.share[place]),
            *share_bounds(audit.test.share[place], int(audit.test.total[place])),
        )
        for audit in audits
        for place, group in enumerate(audit.groups)
    ]
    first = len(audits[0].groups)
    ranked = sorted((row for row in range(first) if rows[row][3] >= FEWEST_ITEMS), key=lambda row: -rows[row][4])
    chosen = ranked if len(ranked) <= 2 * _ENDS else [*ranked[:_ENDS], *ranked[-_ENDS:]]
    return frame(
        "correct",
        "BBQ: share of correct answers by stereotyped group, best and worst",
        ("refusals", "category", "group", "items", "correct", "low", "high"),
        rows,
        {"group": "{category}: {group}", "correct": "{correct:.3f}", "95%": "{low:.3f} {high:.3f}", "items": "{items}"},
        chosen=chosen,
        note=f"{first} groups; all of them, also those of fewer than {FEWEST_ITEMS} items, are in correct.parquet",
    )


def _tests(audits: Sequence[BbqAudit]) -> Frame:
    rows = [
        (_name(audit), audit.test.statistic, audit.test.degrees, audit.test.p_value, int((audit.test.total > 0).sum()))
        for audit in audits
    ]
    return frame(
        "correct_tests",
        "Is it the same for every group?",
        ("refusals", "statistic", "degrees", "p_value", "groups"),
        rows,
        {"refusals": "{refusals}", "chi-square": "{statistic:.1f}", "d.f.": "{degrees}", "p": "{p_value:.2g}"},
    )


def _bias(audits: Sequence[BbqAudit]) -> Frame:
    def row(audit: BbqAudit, category: str, context: str, score: BiasScore) -> tuple[Any, ...]:
        figures = score.value, score.low, score.high, score.accuracy, score.about_a_person, score.items
        return _name(audit), category, context, *figures

    rows = [
        row(audit, category, context, score)
        for audit in audits
        for category, ambiguous, clear in audit.bias
        for context, score in (("ambiguous", ambiguous), ("disambiguated", clear))
    ]
    return frame(
        "bias",
        "BBQ: bias score (1: every answer about a person shows the stereotype) and accuracy",
        ("refusals", "category", "context", "bias", "low", "high", "accuracy", "about_a_person", "items"),
        rows,
        {
            "category": "{category}",
            "context": "{context}",
            "bias": "{bias:+.3f}",
            "95%": "{low:+.3f} {high:+.3f}",
            "accuracy": "{accuracy:.3f}",
            "about a person": "{about_a_person}",
            "items": "{items}",
        },
        chosen=[place for place, one in enumerate(rows) if one[0] == _name(audits[0])],
    )


def bbq_figures(audits: Sequence[BbqAudit]) -> dict[str, float | None]:
    """Return the headline figures: bias and accuracy by context, refusals among the choices."""
    _, ambiguous, clear = audits[0].bias[0]
    return {
        "bias_ambiguous": ambiguous.value,
        "bias_disambiguated": clear.value,
        "accuracy_ambiguous": ambiguous.accuracy,
        "accuracy_disambiguated": clear.accuracy,
    }


def share_bounds(share: float | None, n: int) -> tuple[float | None, float | None]:
    """Return the 95% interval of a share of n items, None where there are none."""
    return (None, None) if share is None or not n else wilson(round(float(share) * n), n)
