"""Every figure of the study that an audit's tables allow, of one model or of several on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.across import ModelAudit
from apm_lab.report.perspectives.figure_subject import Subject
from apm_lab.report.perspectives.figures_bbq import bbq_drawings
from apm_lab.report.perspectives.figures_opinions import opinion_drawings
from apm_lab.report.perspectives.figures_ranks import rank_drawings
from apm_lab.report.perspectives.figures_steering import steering_drawings
from apm_lab.report.perspectives.figures_stereoset import stereoset_drawings

__all__ = ["draw", "drawings"]

Rows = Sequence[Mapping[str, Any]]


def drawings(
    audits: Sequence[ModelAudit], dataset: str, together: Mapping[str, Rows] | None = None
) -> dict[str, Callable[[], Any]]:
    """Return by name what draws each figure, so that one that fails takes no other with it.

    `together`: the tables that `across_frames` made of several audits, by name.
    """
    subject = Subject(audits, dataset, together or {})
    parts = (opinion_drawings, rank_drawings, bbq_drawings, stereoset_drawings, steering_drawings)
    return {name: drawing for part in parts for name, drawing in part(subject)}


def draw(audits: Sequence[ModelAudit], dataset: str, together: Mapping[str, Rows] | None = None) -> dict[str, Any]:
    """Return every figure (matplotlib's `Figure`) by name."""
    return {name: drawing() for name, drawing in drawings(audits, dataset, together).items()}
