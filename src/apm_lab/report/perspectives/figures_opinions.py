"""Figures of RQ1: average ranks of groups, alignment by group and model, and what the temperature does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.across import ModelAudit
from apm_lab.report.perspectives.figure_layout import TEXT, Sheet, colour, marker, row_axis, whole_ticks, wrapped
from apm_lab.report.perspectives.figure_subject import Key, Subject, by_trait, mean, there
from apm_lab.report.perspectives.opinions import EVERYBODY

__all__ = ["aligned_rows", "model_handles", "opinion_drawings"]

_UNIFORM, _HALVES = "uniform model", "half a group against the other half"
_BAND = "#EEEEEE"
_ALL: Key = ("all", EVERYBODY)


def opinion_drawings(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield by name what draws each figure that the tables allow."""
    if subject.all_have("alignment") and len({audit.distance for audit in subject.audits}) == 1:
        own = [row for audit in subject.audits for row in aligned_rows(audit).values()]
        if subject.together.get("groups_alignment") or (
            not subject.several and any(row["rank"] is not None for row in own)
        ):
            yield "ranks", lambda: ranks_figure(subject)
        if any(row["alignment"] is not None for row in own):
            yield "alignment", lambda: alignment_figure(subject)
    if subject.all_have("temperature"):
        yield "temperature", lambda: temperature_figure(subject)


def aligned_rows(audit: ModelAudit) -> dict[Key, Mapping[str, Any]]:
    """Return the table's rows under the headline's distance by group, everybody's under ("all", EVERYBODY)."""
    rows = audit.frames["alignment"]
    return {(row["trait"], row["group"]): row for row in rows if row["distance"] == audit.distance}


def _called(tables: Sequence[Mapping[Key, Mapping[str, Any]]]) -> Callable[[Key], str]:
    """Return what calls a group by its name and its number of people, where known."""

    def name(key: Key) -> str:
        people = next((table[key]["people"] for table in tables if key in table), None)
        return key[1] if people is None else f"{key[1]} ({people:,})"

    return name


def _counted(tables: Sequence[Mapping[Key, Mapping[str, Any]]], distance: str | None) -> str:
    groups = len({key for table in tables for key in table if key != _ALL})
    asked = sorted({table[_ALL]["questions"] for table in tables if _ALL in table})
    several = "" if not asked else f", {asked[0]} to {asked[-1]} questions" if asked[1:] else f", {asked[0]} questions"
    return f"{groups} groups (people in brackets){several}; distance: {str(distance).replace('_', ' ')}"


def ranks_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 1: the rank of every group's alignment by trait; of several models its mean and its span."""
    tables = [aligned_rows(audit) for audit in subject.audits]
    spans: dict[Key, tuple[float | None, float | None, float | None]] = {}
    if subject.several:
        for row in subject.together.get("groups_alignment", ()):
            own = there([value for name, value in row.items() if name.startswith("rank ")])
            spans[row["trait"], row["group"]] = row["mean_rank"], min(own), max(own)
        meant = "mean rank over models; line: from the best to the worst of the models"
    else:
        spans = {k: (r["rank"], r["rank_low"], r["rank_high"]) for k, r in tables[0].items() if r["rank"] is not None}
        meant = "line: 95% over resampled questions"
    order = {key: span[0] for key, span in spans.items() if span[0] is not None}
    rows, keys = by_trait(list(spans), order, _called(tables))
    told = f"{_counted(tables, subject.audits[0].distance)}; {meant}"
    figure, ((axes,),) = Sheet(
        subject.titled("Whose opinions are rewarded? Rank of alignment by group"), told, [4.5], [rows.height], rows.left
    ).draw()
    row_axis(axes, rows)
    for place, key in zip(rows.at, keys, strict=True):
        middle, low, high = spans[key]
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color="0.55", linewidth=1.4, solid_capstyle="butt", zorder=2)
        axes.plot([middle], [place], marker="o", color=colour(0), markersize=5, linestyle="none", zorder=3)
    axes.set_xlim(0.5, len(spans) + 0.5)
    whole_ticks(axes.xaxis)
    axes.set_xlabel("rank among all groups (1: best aligned)", fontsize=TEXT)
    return figure


def alignment_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Figs. 3 and 17: alignment by group and model, everybody on top, with what to read it beside."""
    tables = [aligned_rows(audit) for audit in subject.audits]
    keys = list(dict.fromkeys(key for table in tables for key in table if key != _ALL))
    first = [_ALL] if any(_ALL in table for table in tables) else []
    means = {key: mean([table[key]["alignment"] for table in tables if key in table]) for key in keys}
    order = {key: -value for key, value in means.items() if value is not None}
    rows, placed = by_trait(keys, order, _called(tables), first)
    told = _counted(tables, subject.audits[0].distance)
    references = _references(subject)
    figure, ((axes,),) = Sheet(
        subject.titled("Alignment with groups of people"),
        told if subject.several else f"{told}; line: 95% over resampled questions",
        [4.8],
        [rows.height],
        rows.left,
        legend=[*model_handles(subject), *_reference_handles(references)],
    ).draw()
    row_axis(axes, rows)
    for number, table in enumerate(tables):
        for place, key in zip(rows.at, placed, strict=True):
            row = table.get(key)
            if row is not None and row["alignment"] is not None:
                _dot(axes, row, place, number, whole=key == _ALL, line=not subject.several)
    _draw_references(axes, references, rows.at[0] if first else None)
    axes.set_xlabel("alignment (0: none, 1: the same opinions)", fontsize=TEXT)
    return figure


def _dot(axes: Any, row: Mapping[str, Any], place: float, number: int, *, whole: bool, line: bool) -> None:  # noqa: ANN401
    if line and row["low"] is not None:
        axes.plot([row["low"], row["high"]], [place, place], color="0.55", linewidth=1.4, zorder=2)
    axes.plot(
        [row["alignment"]],
        [place],
        linestyle="none",
        marker=marker(number),
        markersize=8 if whole else 5,
        color=colour(number),
        markeredgecolor="black" if whole else colour(number),
        zorder=3,
    )


def model_handles(subject: Subject) -> list[tuple[Any, str]]:
    """Return the legend of several models by colour and shape, nothing for one."""
    from matplotlib.lines import Line2D

    if not subject.several:
        return []
    return [
        (
            Line2D([], [], linestyle="none", marker=marker(number), color=colour(number), markersize=6),
            wrapped(audit.name, 40),
        )
        for number, audit in enumerate(subject.audits)
    ]


def _references(subject: Subject) -> dict[str, Mapping[str, Any]]:
    """Return the rows that are about people and data, the same for every model of one data set."""
    rows = next((audit.frames["references"] for audit in subject.audits if audit.frames.get("references")), ())
    return {row["row"]: row for row in rows if row["row"] in (_UNIFORM, _HALVES)}


def _reference_handles(references: Mapping[str, Mapping[str, Any]]) -> list[tuple[Any, str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styles = {_UNIFORM: "--", _HALVES: ":"}
    names = {_UNIFORM: "uniform model, mean over groups", _HALVES: "half a group against the other half"}
    found: list[tuple[Any, str]] = [
        (Line2D([], [], color="black", linestyle=style, linewidth=1.2), names[name])
        for name, style in styles.items()
        if name in references and references[name]["mean"] is not None
    ]
    if _UNIFORM in references and references[_UNIFORM]["everybody"] is not None:
        open_diamond = Line2D([], [], linestyle="none", marker="D", color="black", markerfacecolor="none")
        found.append((open_diamond, "uniform model, everybody"))
    if found:
        found.append((Patch(color=_BAND), "of these, least to largest group"))
    return found


def _draw_references(axes: Any, references: Mapping[str, Mapping[str, Any]], top: float | None) -> None:  # noqa: ANN401
    for name, row in references.items():
        if row["mean"] is not None:
            axes.axvline(
                row["mean"], color="black", linestyle="--" if name == _UNIFORM else ":", linewidth=1.2, zorder=1
            )
            axes.axvspan(row["least"], row["largest"], color=_BAND, linewidth=0, zorder=-1)
        if row["everybody"] is not None and top is not None:
            axes.plot([row["everybody"]], [top], linestyle="none", marker="D", color="black", markerfacecolor="none")


def temperature_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return alignment and the correlation of ranks against the reward temperature; the run's own is marked."""
    from matplotlib.lines import Line2D

    figure, (panels,) = Sheet(
        subject.titled("The same rewards at other temperatures"),
        "left: alignment moves with the scale of the rewards; right: whether the ranks of groups hold",
        [3.2, 3.2],
        [2.6],
        left=0.6,
        gap=0.9,
        legend=[
            *model_handles(subject),
            (Line2D([], [], color="0.2"), "with everybody"),
            (Line2D([], [], color="0.2", linestyle="--"), "mean over groups"),
            *([(Line2D([], [], color="0.5", linestyle=":"), "temperature of the run")] if _own(subject) else []),
        ],
    ).draw()
    for number, audit in enumerate(subject.audits):
        steps = audit.frames["temperature"]
        for axes, column, style in (
            (panels[0], "everybody", "-"),
            (panels[0], "mean", "--"),
            (panels[1], "spearman", "-"),
        ):
            known = [(row["temperature"], row[column]) for row in steps if row[column] is not None]
            axes.plot(
                [x for x, _ in known],
                [y for _, y in known],
                color=colour(number),
                linestyle=style,
                marker=marker(number),
                markersize=4,
            )
    _temperature_axes(panels, subject)
    return figure


def _own(subject: Subject) -> list[float]:
    return sorted({audit.temperature for audit in subject.audits if audit.temperature is not None})


def _temperature_axes(panels: Sequence[Any], subject: Subject) -> None:
    shown = sorted({row["temperature"] for audit in subject.audits for row in audit.frames["temperature"]})
    names = ("alignment (0 to 1)", "Spearman of groups' ranks\nwith those of the run")
    for axes, name in zip(panels, names, strict=True):
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        ticks = shown[:: max(1, len(shown) // 8)]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.tick_params(labelsize=TEXT)
        axes.set_xlabel("reward temperature (divides rewards before the softmax)", fontsize=TEXT)
        axes.set_ylabel(name, fontsize=TEXT)
        axes.grid(color="0.9", linewidth=0.6)
        for value in _own(subject):
            axes.axvline(value, color="0.5", linestyle=":", zorder=0)
