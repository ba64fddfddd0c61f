"""Ranks of groups by model, and models against one another (RMP Figs. 2, 13 to 16, 18 to 20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.figure_heat import COLUMN, heat, name_room, named_columns
from apm_lab.report.perspectives.figure_layout import TEXT, Sheet, colour, row_axis, rows, whole_ticks, wrapped
from apm_lab.report.perspectives.figure_subject import Subject
from apm_lab.report.perspectives.figures_opinions import aligned_rows
from apm_lab.report.perspectives.opinions import EVERYBODY

__all__ = ["rank_drawings"]

_SMALLEST, _LARGEST = 15.0, 110.0  # areas of dots, points squared
_RANKED = {  # table: (figure, its title, what the dots' size is, what rank 1 is)
    "groups_alignment": ("ranks_by_model", "Ranks of groups by model", "alignment", "best aligned"),
    "groups_correct": ("bbq_correct_ranks", "BBQ, ranks of groups by share correct", "share correct", "most correct"),
    "groups_share_stereotype": (
        "stereoset_ranks",
        "StereoSet, ranks of target terms by share of stereotypes",
        "share of stereotypes",
        "fewest stereotypes",
    ),
}


def rank_drawings(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield by name what draws each figure that the tables of several models allow."""
    for table, (name, *_) in _RANKED.items():
        if subject.together.get(table):
            yield name, lambda table=table: ranks_by_model(subject, table)  # type: ignore[misc]
    if subject.together.get("models"):
        for value, about in (
            ("alignment", "Alignment between reward models"),
            ("spearman", "Rank correlation of models"),
        ):
            if any(row[value] is not None for row in subject.together["models"]):
                yield f"models_{value}", lambda value=value, about=about: models_figure(subject, value, about)  # type: ignore[misc]


def _columns(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the models' names as the table has them."""
    return [name.removeprefix("rank ") for name in table[0] if name.startswith("rank ")]


def ranks_by_model(subject: Subject, table: str) -> Any:  # noqa: ANN401 (a figure)
    """Return dots by group and model: rank as colour, value as size; the mean rank beside, overall values on top."""
    _, title, value, best = _RANKED[table]
    found, models = subject.together[table], _columns(subject.together[table])
    own = rows([(f"{row['trait']}: {row['group']}", False) for row in found])
    overall = _overall(subject, table)
    names = [audit.name for audit in subject.audits]
    heights = [0.9, own.height] if overall else [own.height]
    sheet = Sheet(
        subject.titled(title),
        f"{len(found)} groups that every model has; size: {value}, hue: rank within the model (1: {best}); "
        "bars: mean rank over models",
        [COLUMN * len(models), 1.6],
        heights,
        own.left,
        bottom=max(0.55, name_room(names)),
        right=1.1,
        head=0.1 if overall else 0.1 + name_room(names, own),
        row_gap=0.2 + name_room(names, own),
        legend=_sizes([row[name] for row in found for name in models], value),
    )
    figure, panels = sheet.draw()
    grid, beside = panels[-1]
    row_axis(grid, own)
    image = _dots(grid, own.at, found, models)
    named_columns(grid, names, own)
    row_axis(beside, own, named=False)
    beside.barh(own.at, [row["mean_rank"] for row in found], height=0.11, color=colour(0), zorder=2)
    beside.set_xlim(0, len(found) + 1)
    whole_ticks(beside.xaxis)
    beside.set_xlabel("mean rank over models", fontsize=TEXT)
    sheet.scale(figure, beside, image, f"rank (1: {best})", whole=True)
    if overall:
        _bars(panels[0], overall, value)
    return figure


def _overall(subject: Subject, table: str) -> list[float | None]:
    """Return every model's value over all people or items, nothing where the tables have none."""
    if table == "groups_alignment":
        rows_of_all = [aligned_rows(audit).get(("all", EVERYBODY)) for audit in subject.audits]
        return [None if row is None else row["alignment"] for row in rows_of_all]
    if table == "groups_share_stereotype":
        return [
            next((row["share_stereotype"] for row in audit.frames["shares"] if row["domain"] == "all"), None)
            for audit in subject.audits
        ]
    return []


def _bars(panels: Sequence[Any], overall: Sequence[float | None], value: str) -> None:
    """Draw the models' own values in the left panel; the right one is nothing."""
    axes, empty = panels
    empty.set_axis_off()
    known = [(place, each) for place, each in enumerate(overall) if each is not None]
    axes.bar([place for place, _ in known], [each for _, each in known], width=0.5, color="0.6")
    for place, each in known:
        axes.text(place, each, f"{each:.3f}", fontsize=TEXT, ha="center", va="bottom")
    axes.set_xlim(-0.5, len(overall) - 0.5)
    axes.set_ylim(0, 1.25 * max((each for _, each in known), default=1.0))
    axes.set_xticks([])
    axes.tick_params(labelsize=TEXT)
    axes.set_ylabel(wrapped(f"{value}, all", 14), fontsize=TEXT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _area(value: float, values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    return _LARGEST if high <= low else _SMALLEST + (_LARGEST - _SMALLEST) * (value - low) / (high - low)


def _dots(axes: Any, at: Sequence[float], found: Sequence[Mapping[str, Any]], models: Sequence[str]) -> Any:  # noqa: ANN401
    values = [row[name] for row in found for name in models]
    return axes.scatter(
        [column for _ in found for column in range(len(models))],
        [place for place in at for _ in models],
        s=[_area(value, values) for value in values],
        c=[row[f"rank {name}"] for row in found for name in models],
        cmap="viridis",
        vmin=1,
        vmax=max(2, len(found)),
        zorder=3,
    )


def _sizes(values: Sequence[float], called: str) -> list[tuple[Any, str]]:
    """Return a legend of three sizes."""
    from matplotlib.lines import Line2D

    low, high = min(values), max(values)
    return [
        (
            Line2D([], [], linestyle="none", marker="o", color="0.5", markersize=_area(value, values) ** 0.5),
            f"{called} {value:.3f}",
        )
        for value in ([high] if high <= low else [low, (low + high) / 2, high])
    ]


def models_figure(subject: Subject, value: str, about: str) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Figs. 13 to 16: a heatmap of models against models."""
    names = [audit.name for audit in subject.audits]
    cells = {(row["model"], row["other"]): row for row in subject.together["models"]}
    values = [[cells[one, other][value] for other in names] for one in names]
    own = rows([(name, False) for name in names], letters=28, least=0.5)
    asked = [cells[one, other]["questions"] for one in names for other in names]
    groups = len(subject.together.get("groups_alignment", ()))
    least, most = min(asked), max(asked)
    questions = f"opinions on {most} questions" if least == most else f"opinions on {least} to {most} questions"
    of = questions if value == "alignment" else f"ranks of {groups} groups"
    sheet = Sheet(
        subject.titled(about), of, [COLUMN * len(names)], [own.height], own.left, bottom=name_room(names), right=1.1
    )
    figure, ((axes,),) = sheet.draw()
    row_axis(axes, own, grid=False)
    bounds = (None, None) if value == "alignment" else (-1.0, 1.0)
    image = heat(axes, own, values, bounds)
    named_columns(axes, names, own)
    sheet.scale(figure, axes, image, "alignment (0 to 1)" if value == "alignment" else "Spearman (-1 to 1)")
    return figure
