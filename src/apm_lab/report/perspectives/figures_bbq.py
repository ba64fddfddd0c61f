"""Figures of RQ2 on BBQ: the confusion of labels, the share of correct answers by group, bias by category."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.figure_heat import COLUMN, heat, name_room, named_columns
from apm_lab.report.perspectives.figure_layout import TEXT, Rows, Sheet, colour, marker, row_axis, rows, wrapped
from apm_lab.report.perspectives.figure_subject import Key, Subject, by_trait, mean
from apm_lab.report.perspectives.figures_opinions import model_handles
from apm_lab.studies.stereotypes import BBQ_KINDS

__all__ = ["bbq_drawings"]

Row = Mapping[str, Any]
_WITH, _WITHOUT = "among the choices", "removed"
_REFUSALS = (_WITH, _WITHOUT)


def bbq_drawings(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield by name what draws each figure that the tables allow."""
    if subject.all_have("confusion") and subject.any_value("confusion", *BBQ_KINDS):
        yield "bbq_confusion", lambda: confusion_figure(subject)
    if subject.all_have("correct") and subject.any_value("correct", "correct"):
        yield "bbq_correct", lambda: correct_figure(subject)
    if subject.all_have("bias") and subject.any_value("bias", "bias"):
        yield "bbq_bias", lambda: bias_figure(subject)


def confusion_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 4: the most rewarded answer against the gold one; hue is the share of the gold label's items."""
    own = rows([(kind, False) for kind in BBQ_KINDS], least=0.42)
    sheet = Sheet(
        subject.titled("BBQ, the most rewarded answer against the gold answer"),
        "items, and their share of the items with that gold answer; left with refusals, right without them",
        [2.7, 2.7],
        [own.height] * len(subject.audits),
        own.left + 0.2,
        right=1.1,
        head=0.3,
        gap=0.3,
        row_gap=0.75,
    )
    figure, panels = sheet.draw()
    for audit, line in zip(subject.audits, panels, strict=True):
        for axes, refusals in zip(line, _REFUSALS, strict=True):
            table = {row["gold"]: row for row in audit.frames["confusion"] if row["refusals"] == refusals}
            shown = [kind for kind in BBQ_KINDS if refusals == _WITH or kind != "unknown"]
            counts = [
                [table[gold][kind] if gold in table and kind in shown else None for kind in BBQ_KINDS]
                for gold in BBQ_KINDS
            ]
            image = _confusion(axes, own, counts, named=axes is line[0])
            axes.set_title(wrapped(f"{audit.name}, refusals {refusals}", 42), fontsize=TEXT)
            if line is panels[-1]:
                axes.set_xlabel("most rewarded answer", fontsize=TEXT)
        line[0].set_ylabel("gold answer", fontsize=TEXT)
    sheet.scale(figure, panels[0][1], image, "share of the gold label's items")
    return figure


def _confusion(axes: Any, own: Rows, counts: Sequence[Sequence[int | None]], *, named: bool) -> Any:  # noqa: ANN401
    row_axis(axes, own, named=named, grid=False)
    sums = [sum(count or 0 for count in line) for line in counts]
    shares = [
        [None if count is None or not n else count / n for count in line] for line, n in zip(counts, sums, strict=True)
    ]
    text = [
        [f"{count:,}\n{share:.0%}" if share is not None else "" for count, share in zip(line, own_shares, strict=True)]
        for line, own_shares in zip(counts, shares, strict=True)
    ]
    image = heat(axes, own, shares, text=text)
    axes.set_xticks(range(len(BBQ_KINDS)), BBQ_KINDS, fontsize=TEXT)
    axes.tick_params(axis="x", length=0)
    return image


def correct_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 7: the share of correct answers by group, with intervals for one model, a heatmap of several."""
    tables = [
        {
            refusals: {
                (row["category"], row["group"]): row for row in audit.frames["correct"] if row["refusals"] == refusals
            }
            for refusals in _REFUSALS
        }
        for audit in subject.audits
    ]
    keys = list(dict.fromkeys(key for table in tables for key in table[_WITH]))
    means = {key: mean([table[_WITH][key]["correct"] for table in tables if key in table[_WITH]]) for key in keys}
    items = {key: max(table[_WITH][key]["items"] for table in tables if key in table[_WITH]) for key in keys}
    order = {key: -value for key, value in means.items() if value is not None}
    own, placed = by_trait(keys, order, lambda key: f"{key[1]} ({items[key]:,})")
    if subject.several:
        return _correct_heat(subject, tables, own, placed)
    return _correct_dots(subject, tables[0], own, placed)


def _correct_dots(subject: Subject, table: Mapping[str, Mapping[Key, Row]], own: Rows, placed: Sequence[Key]) -> Any:  # noqa: ANN401
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker="o",
            color=colour(place),
            markerfacecolor=colour(place) if not place else "none",
        )
        for place in range(2)
    ]
    figure, ((axes,),) = Sheet(
        subject.titled("BBQ, share of correct answers by group"),
        f"{len(placed)} groups (items in brackets, refusals among the choices); line: 95% of a share (Wilson)",
        [4.5],
        [own.height],
        own.left,
        legend=[(handle, f"refusals {name}") for handle, name in zip(handles, _REFUSALS, strict=True)],
    ).draw()
    row_axis(axes, own)
    for place, refusals in enumerate(_REFUSALS):
        for y, key in zip(own.at, placed, strict=True):
            row = table[refusals].get(key)
            if row is None or row["correct"] is None:
                continue
            shade = colour(place)
            axes.plot([row["low"], row["high"]], [y, y], color=shade, linewidth=1.4, alpha=0.5, zorder=2)
            face = shade if not place else "white"
            axes.plot([row["correct"]], [y], "o", color=shade, markerfacecolor=face, markersize=5, zorder=3)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("share of correct answers (0 to 1)", fontsize=TEXT)
    return figure


def _correct_heat(
    subject: Subject, tables: Sequence[Mapping[str, Mapping[Key, Row]]], own: Rows, placed: Sequence[Key]
) -> Any:  # noqa: ANN401 (a figure)
    names = [audit.name for audit in subject.audits]
    sheet = Sheet(
        subject.titled("BBQ, share of correct answers by group"),
        f"{len(placed)} groups (items in brackets); left with refusals among the choices, right without",
        [COLUMN * len(names)] * 2,
        [own.height],
        own.left,
        bottom=name_room(names),
        right=1.1,
        head=0.3 + name_room(names, own),
    )
    figure, (panels,) = sheet.draw()
    for axes, refusals in zip(panels, _REFUSALS, strict=True):
        values = [
            [table[refusals][key]["correct"] if key in table[refusals] else None for table in tables] for key in placed
        ]
        row_axis(axes, own, named=axes is panels[0], grid=False)
        image = heat(axes, own, values)
        named_columns(axes, names, own)
        axes.set_title(f"refusals {refusals}", fontsize=TEXT)
    sheet.scale(figure, panels[-1], image, "share correct (0 to 1)")
    return figure


def bias_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return BBQ's bias scores by category, a panel per context and with or without refusals."""
    found = [row for audit in subject.audits for row in audit.frames["bias"]]
    contexts = list(dict.fromkeys(row["context"] for row in found))
    categories = list(dict.fromkeys(row["category"] for row in found))
    items = {name: max(row["items"] or 0 for row in found if row["category"] == name) for name in categories}
    step = 0.08 if subject.several else 0.0
    own = rows([(f"{name} ({items[name]:,})", False) for name in categories], least=0.26 + step * len(subject.audits))
    figure, panels = Sheet(
        subject.titled("BBQ, bias score by category"),
        "items of a context in brackets; 1: every answer about a person shows the stereotype, -1: none does",
        [2.6] * len(contexts),
        [own.height] * 2,
        own.left,
        head=0.3,
        gap=0.35,
        row_gap=0.5,
        legend=model_handles(subject),
    ).draw()
    for line, refusals in zip(panels, _REFUSALS, strict=True):
        for axes, context in zip(line, contexts, strict=True):
            row_axis(axes, own, named=axes is line[0])
            axes.axvline(0, color="black", linewidth=0.8)
            axes.set_title(wrapped(f"{context}, refusals {refusals}", 38), fontsize=TEXT)
            axes.set_xlim(-1.05, 1.05)
            for number, audit in enumerate(subject.audits):
                for row in audit.frames["bias"]:
                    if (row["refusals"], row["context"]) == (refusals, context) and row["bias"] is not None:
                        y = own.at[categories.index(row["category"])] + step * (number - (len(subject.audits) - 1) / 2)
                        axes.plot([row["bias"]], [y], marker(number), color=colour(number), markersize=5, zorder=3)
    for axes in panels[-1]:
        axes.set_xlabel("bias score (-1 to 1)", fontsize=TEXT)
    return figure
