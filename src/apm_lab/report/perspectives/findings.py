"""All tables of one audit, its headline figures, and the rewards themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from apm_lab.report.frame import Frame, frame
from apm_lab.report.perspectives.bbq import bbq_figures, bbq_frames
from apm_lab.report.perspectives.opinions import opinion_figures, opinion_frames, steered_figures, steered_frames
from apm_lab.report.perspectives.stereoset import shares_frames, stereoset_figures, stereoset_frames
from apm_lab.studies.format_sensitivity import AXES
from apm_lab.studies.perspectives import Findings

__all__ = ["headline", "opinion_columns", "report_frames", "reward_columns"]


def report_frames(findings: Findings) -> list[Frame]:
    """Return every table of the audit, in the order in which they are read."""
    found: list[Frame] = []
    if findings.opinions is not None:
        found += opinion_frames(findings.opinions)
        if findings.steered_opinions is not None:
            found += steered_frames(findings.opinions, findings.steered_opinions)
    if findings.bbq:
        found += bbq_frames(findings.bbq)
    if findings.stereoset is not None:
        found += stereoset_frames(findings.stereoset)
    if findings.steered_shares:
        found += shares_frames(findings.steered_shares)
    if findings.formats:
        found.append(_formats(findings))
    if findings.left_out:
        found.append(frame("left_out", "", ("reason", "count"), list(findings.left_out.items()), {}))
    return found


def headline(findings: Findings) -> dict[str, float | None]:
    """Return the figures that a run is summed up in, named `test/...`."""
    figures: dict[str, float | None] = {"missing": float(findings.missing)}
    if findings.opinions is not None:
        figures = opinion_figures(findings.opinions) | figures
    if findings.steered_opinions is not None:
        figures |= steered_figures(findings.steered_opinions)
    if findings.bbq:
        figures = bbq_figures(findings.bbq) | figures
    if findings.stereoset is not None:
        figures = stereoset_figures(findings.stereoset) | figures
    return {f"test/{name}": value for name, value in figures.items()}


def _formats(findings: Findings) -> Frame:
    rows = [
        (
            *(effect.question, effect.formats, effect.missing, effect.kendall_w, effect.same_top),
            *(effect.friedman, effect.p_value),
            *(effect.by_axis[axis] for axis in AXES),
        )
        for effect in findings.formats
    ]
    shown = {
        "question": "{question}",
        "formats": "{formats}",
        "Kendall W": "{kendall_w:.2f}",
        "same top": "{same_top:.2f}",
        "Friedman p": "{p_value:.2g}",
        **{axis.replace("_", " "): f"{{{axis}:.2f}}" for axis in AXES},
    }
    return frame(
        "formats",
        "Format sensitivity: how alike the choices are ranked, and mean Spearman where one thing alone is altered",
        ("question", "formats", "missing", "kendall_w", "same_top", "friedman", "p_value", *AXES),
        rows,
        shown,
        chosen=range(min(len(rows), 20)),
    )


def opinion_columns(findings: Findings) -> dict[str, Any] | None:
    """Return the columns of `opinions.parquet`: a row per question and choice with the model's share, else None."""
    audit = findings.opinions
    if audit is None:
        return None
    rows, columns = np.nonzero(findings.real & audit.known[:, None])
    return {
        "question": [findings.questions[row].id for row in rows],
        "choice": columns,
        "answer": [findings.questions[row].choices[column] for row, column in zip(rows, columns, strict=True)],
        "position": audit.positions[rows, columns],
        "share": audit.opinions[rows, columns],
        "respondents": audit.survey.overall[rows, columns],
    }


def reward_columns(findings: Findings) -> dict[str, Any]:
    """Return the columns of `rewards.parquet`: a row per steering prompt, question and choice; reward null if missing.

    Unsteered rewards come first, with form `none`.
    """
    import pyarrow as pa

    rows, columns = np.nonzero(findings.real)
    asked = [("none", "", "", findings.rewards)]
    asked += [
        (prompt.form, prompt.group.trait, prompt.group.value, findings.steered[number])
        for number, prompt in enumerate(findings.prompts)
    ]
    values = np.concatenate([rewards[rows, columns] for *_, rewards in asked])

    def repeated(place: int) -> Any:  # noqa: ANN401 (an array of pyarrow)
        names = sorted({str(each[place]) for each in asked})
        indices = np.repeat([names.index(str(each[place])) for each in asked], len(rows)).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names))

    ids = pa.array([question.id for question in findings.questions])
    return {
        "form": repeated(0),
        "trait": repeated(1),
        "group": repeated(2),
        "question": pa.DictionaryArray.from_arrays(pa.array(np.tile(rows, len(asked)).astype(np.int32)), ids),
        "choice": np.tile(columns, len(asked)),
        "reward": pa.array(values, mask=np.isnan(values)),
    }
