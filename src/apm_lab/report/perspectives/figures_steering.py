"""Figures of RQ3, how far steering moves alignment, its ranks and gains; and of format sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.figure_layout import TEXT, Sheet, colour, marker, row_axis, rows, wrapped
from apm_lab.report.perspectives.figure_subject import Key, Subject, by_trait, mean, there
from apm_lab.report.perspectives.figures_opinions import model_handles
from apm_lab.studies.format_sensitivity import AXES
from apm_lab.studies.steered_opinions import NONE

__all__ = ["steering_drawings"]

Row = Mapping[str, Any]
_GOLDEN = 0.6180339887  # its multiples fill an interval evenly, and alike in every run
_FEWEST = 5  # values that a density is drawn of


def steering_drawings(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield by name what draws each figure that the tables allow."""
    if subject.all_have("steering"):
        if subject.any_value("steering", "spread"):
            yield "steering_spread", lambda: spread_figure(subject)
        if subject.any_value("steering", "rank"):
            yield "steering_ranks", lambda: form_ranks_figure(subject)
        if subject.any_value("steering", "gain"):
            yield "steering_gain", lambda: gain_figure(subject)
    if subject.all_have("formats") and subject.any_value("formats", *AXES):
        yield "formats", lambda: formats_figure(subject)


def _forms(subject: Subject) -> list[str]:
    return list(dict.fromkeys(row["form"] for audit in subject.audits for row in audit.frames["steering"]))


def _groups(subject: Subject) -> int:
    return len({(row["trait"], row["group"]) for audit in subject.audits for row in audit.frames["steering"]})


def _of_form(rows_of_all: Sequence[Row], form: str) -> list[Row]:
    return [row for row in rows_of_all if row["form"] == form]


def spread_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 10: how the s.d. of alignment over steering prompts is spread over groups, by form and model."""
    forms = _forms(subject)
    names = [(form, False) for form in forms]
    if subject.several:
        names = [each for audit in subject.audits for each in ((audit.name, True), *((form, False) for form in forms))]
    own = rows(names, least=0.42)
    figure, ((axes,),) = Sheet(
        subject.titled("How far steering moves a model"),
        f"a dot is a group ({_groups(subject)}): s.d. of the alignment with it over the form's prompts; line: median",
        [4.8],
        [own.height],
        own.left,
    ).draw()
    row_axis(axes, own)
    values = [
        there([row["spread"] for row in _of_form(audit.frames["steering"], form)])
        for audit in subject.audits
        for form in forms
    ]
    for place, (y, part) in enumerate(zip(own.at, values, strict=True)):
        _violin(axes, y, part, colour(place // len(forms) if subject.several else 0))
    axes.set_xlim(left=0)
    axes.set_xlabel("s.d. of alignment over steering prompts", fontsize=TEXT)
    return figure


def _violin(axes: Any, y: float, values: Sequence[float], shade: str, half: float = 0.17) -> None:  # noqa: ANN401
    """Draw the values as dots about y, their density about them where there are enough, and their median."""
    import numpy as np
    from scipy.stats import gaussian_kde

    if not values:
        return
    if len(set(values)) >= _FEWEST:
        at = np.linspace(max(0.0, min(values) - np.ptp(values) / 6), max(values) + np.ptp(values) / 6, 100)
        density = gaussian_kde(values)(at)
        axes.fill_between(
            at,
            y - half * density / density.max(),
            y + half * density / density.max(),
            color=shade,
            alpha=0.25,
            linewidth=0,
        )
    offsets = [(place * _GOLDEN % 1 - 0.5) * half for place in range(len(values))]
    axes.plot(values, [y + each for each in offsets], "o", color=shade, markersize=3, alpha=0.8, zorder=3)
    axes.plot([float(np.median(values))] * 2, [y - half, y + half], color="black", linewidth=1.6, zorder=4)


def form_ranks_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 11: how often no steering and each form has which rank for a group, and the mean rank."""
    from matplotlib import colormaps
    from matplotlib.patches import Patch

    forms = _forms(subject)
    parts = [(audit.name, audit.frames["steering"]) for audit in subject.audits]
    if subject.several:
        parts.insert(0, ("all models", [row for _, rows_of_one in parts for row in rows_of_one]))
    asked = (NONE, *forms)
    names = [
        each
        for name, _ in parts
        for each in (((name, True),) if subject.several else ()) + tuple((f, False) for f in asked)
    ]
    found = [_ranks(rows_of_one, form, forms[0]) for _, rows_of_one in parts for form in asked]
    kinds = sorted({rank for ranks, _ in found for rank in ranks})
    shades = {rank: colormaps["viridis"]((rank - 1) / max(1, len(forms))) for rank in kinds}
    own = rows(names, least=0.3)
    figure, ((axes, beside),) = Sheet(
        subject.titled("Does steering towards a group help?"),
        f"{_groups(subject)} groups: rank of alignment with the group among no steering and the forms (1: best); "
        "right: mean rank, with the largest alignment over the least of that form",
        [3.6, 2.2],
        [own.height],
        own.left,
        legend=[(Patch(color=shades[rank]), f"rank {rank:g}") for rank in kinds],
    ).draw()
    row_axis(axes, own)
    row_axis(beside, own, named=False)
    for y, (ranks, ratio) in zip(own.at, found, strict=True):
        _proportions(axes, y, ranks, shades)
        _mean_rank(beside, y, ranks, ratio)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of groups (0 to 1)", fontsize=TEXT)
    beside.set_xlim(0.7, len(asked) + 1.3)
    beside.set_xticks(range(1, len(asked) + 1))
    beside.set_xlabel("mean rank (1: best)", fontsize=TEXT)
    return figure


def _ranks(found: Sequence[Row], form: str, any_form: str) -> tuple[list[float], float | None]:
    """Return a form's ranks, and its largest alignment over its least; no steering stands in every form's rows."""
    plain = form == NONE
    own = _of_form(found, any_form if plain else form)
    aligned = there([row["unsteered" if plain else "alignment"] for row in own])
    ratio = max(aligned) / min(aligned) if aligned and min(aligned) > 0 else None
    return there([row["rank_unsteered" if plain else "rank"] for row in own]), ratio


def _proportions(axes: Any, y: float, ranks: Sequence[float], shades: Mapping[float, Any]) -> None:  # noqa: ANN401
    left = 0.0
    for rank in sorted(set(ranks)):
        share = ranks.count(rank) / len(ranks)
        axes.barh([y], [share], left=left, height=0.18, color=[shades[rank]], zorder=2)
        left += share


def _mean_rank(axes: Any, y: float, ranks: Sequence[float], ratio: float | None) -> None:  # noqa: ANN401
    middle = mean(ranks)
    if middle is None:
        return
    axes.plot([middle], [y], "o", color=colour(0), markersize=7, zorder=3)
    if ratio is not None:
        axes.annotate(f"{ratio:.2f}", (middle, y), (7, 0), textcoords="offset points", fontsize=TEXT, va="center")


def gain_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return what naming a group gains in alignment with it, by form and group; of one model with intervals."""
    forms = _forms(subject)
    tables = [
        {(row["form"], (row["trait"], row["group"])): row for row in audit.frames["steering"]}
        for audit in subject.audits
    ]
    keys: list[Key] = list(dict.fromkeys(key for table in tables for _, key in table))
    means = {
        key: mean([table[form, key]["gain"] for table in tables for form in forms if (form, key) in table])
        for key in keys
    }
    order = {key: -value for key, value in means.items() if value is not None}
    own, placed = by_trait(keys, order, lambda key: key[1])
    figure, (panels,) = Sheet(
        subject.titled("What steering towards a group gains"),
        f"{len(keys)} groups; alignment with a group when the prompt names it, less that without a prompt"
        + ("" if subject.several else "; line: 95% over resampled questions, dashed: mean over groups"),
        [2.3] * len(forms),
        [own.height],
        own.left,
        head=0.3,
        gap=0.35,
        legend=model_handles(subject),
    ).draw()
    for axes, form in zip(panels, forms, strict=True):
        row_axis(axes, own, named=axes is panels[0])
        axes.axvline(0, color="black", linewidth=0.8)
        axes.locator_params(axis="x", nbins=4)
        axes.set_title(form, fontsize=TEXT)
        axes.set_xlabel("gain in alignment", fontsize=TEXT)
        for number, table in enumerate(tables):
            for y, key in zip(own.at, placed, strict=True):
                _gain(axes, y, table.get((form, key)), number, line=not subject.several)
        total = mean([table[form, key]["gain"] for table in tables for key in keys if (form, key) in table])
        if not subject.several and total is not None:
            axes.axvline(total, color=colour(0), linestyle="--", linewidth=1)
    return figure


def _gain(axes: Any, y: float, row: Row | None, number: int, *, line: bool) -> None:  # noqa: ANN401
    if row is None or row["gain"] is None:
        return
    if line and row["low"] is not None:
        axes.plot([row["low"], row["high"]], [y, y], color="0.55", linewidth=1.4, zorder=2)
    axes.plot([row["gain"]], [y], marker(number), color=colour(number), markersize=5, zorder=3)


def formats_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return how alike the choices are ranked where one thing alone of the form is altered (RMP App. B.3.1)."""
    names = [(axis.replace("_", " "), False) for axis in AXES]
    own = rows(names, least=max(0.3, 0.12 * len(subject.audits) + 0.1))
    questions = {row["question"] for audit in subject.audits for row in audit.frames["formats"]}
    formats = max(row["formats"] for audit in subject.audits for row in audit.frames["formats"])
    figure, ((axes,),) = Sheet(
        subject.titled("Format sensitivity"),
        f"a dot is one of {len(questions)} questions in up to {formats} formats, the line their mean",
        [4.8],
        [own.height],
        own.left,
        legend=model_handles(subject),
    ).draw()
    row_axis(axes, own)
    step = 0.12 if subject.several else 0.0
    for number, audit in enumerate(subject.audits):
        for y, axis in zip(own.at, AXES, strict=True):
            values = there([row[axis] for row in audit.frames["formats"]])
            middle = y + step * (number - (len(subject.audits) - 1) / 2)
            if values:
                axes.plot(values, [middle] * len(values), marker(number), color=colour(number), markersize=4, alpha=0.6)
                axes.plot([mean(values)] * 2, [middle - 0.07, middle + 0.07], color="black", linewidth=1.6, zorder=4)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xlabel(
        wrapped("mean Spearman of the choices' rewards, over pairs of formats that differ in this alone", 60),
        fontsize=TEXT,
    )
    return figure
