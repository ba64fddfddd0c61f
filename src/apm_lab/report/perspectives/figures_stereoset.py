"""Figures of RQ2 on StereoSet: which kind of sentence is rewarded most, by domain and by target term."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apm_lab.report.perspectives.figure_layout import TEXT, Sheet, on_colour, row_axis, rows, wrapped
from apm_lab.report.perspectives.figure_subject import Subject, by_trait, mean
from apm_lab.studies.stereotypes import STEREOSET_KINDS

__all__ = ["stereoset_drawings"]

Row = Mapping[str, Any]
_SHADES = ("#D55E00", "#0072B2", "#BBBBBB")  # by kind


def stereoset_drawings(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield by name what draws each figure that the tables allow."""
    if subject.all_have("shares"):
        yield "stereoset_shares", lambda: shares_figure(subject)
        terms = [row for audit in subject.audits for row in audit.frames["shares"] if row["term"]]
        if any(row["share_stereotype"] is not None for row in terms):
            yield "stereoset_terms", lambda: terms_figure(subject)


def _stacks(axes: Any, at: Sequence[float], found: Sequence[Row | None], *, told: bool) -> None:  # noqa: ANN401
    from matplotlib.colors import to_rgb

    there = [
        (y, row) for y, row in zip(at, found, strict=True) if row is not None and row["share_stereotype"] is not None
    ]
    left = [0.0] * len(there)
    for kind, shade in zip(STEREOSET_KINDS, _SHADES, strict=True):
        shares = [row[f"share_{kind}"] for _, row in there]
        places = [y for y, _ in there]
        axes.barh(places, shares, left=left, height=0.2 if told else 0.13, color=shade, zorder=2, label=kind)
        for start, share, y in zip(left, shares, places, strict=True):
            if told and share >= 0.1:
                ink = on_colour(to_rgb(shade))
                axes.text(start + share / 2, y, f"{share:.2f}", fontsize=TEXT, ha="center", va="center", color=ink)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.set_xlim(0, 1)


def _kind_handles() -> list[tuple[Any, str]]:
    from matplotlib.patches import Patch

    return [(Patch(color=shade), kind) for kind, shade in zip(STEREOSET_KINDS, _SHADES, strict=True)]


def shares_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 6: the shares of kinds of the most rewarded sentence, over all and by domain."""
    tables = [{row["domain"]: row for row in audit.frames["shares"] if not row["term"]} for audit in subject.audits]
    domains = list(dict.fromkeys(name for table in tables for name in table))
    n = {name: max(table[name]["items"] for table in tables if name in table) for name in domains}
    names: list[tuple[str, bool]] = []
    for domain in domains:
        named = f"{domain} ({n[domain]:,})"
        names += (
            [(named, True), *((audit.name, False) for audit in subject.audits)] if subject.several else [(named, False)]
        )
    own = rows(names, least=0.24)
    figure, ((axes,),) = Sheet(
        subject.titled("StereoSet, kinds of the most rewarded sentence"),
        "items in brackets",
        [4.8],
        [own.height],
        own.left,
        legend=_kind_handles(),
    ).draw()
    row_axis(axes, own)
    _stacks(axes, own.at, [table.get(domain) for domain in domains for table in tables], told=True)
    axes.set_xlabel("share of items (0 to 1)", fontsize=TEXT)
    return figure


def terms_figure(subject: Subject) -> Any:  # noqa: ANN401 (a figure)
    """Return RMP Fig. 8: the shares of kinds by target term, a panel per model."""
    tables = [
        {(row["domain"], row["term"]): row for row in audit.frames["shares"] if row["term"]} for audit in subject.audits
    ]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    means = {key: mean([table[key]["share_stereotype"] for table in tables if key in table]) for key in keys}
    n = {key: max(table[key]["items"] for table in tables if key in table) for key in keys}
    order = {key: -value for key, value in means.items() if value is not None}
    own, placed = by_trait(keys, order, lambda key: f"{key[1]} ({n[key]:,})")
    wide = 1.5 if subject.several else 4.5
    figure, (panels,) = Sheet(
        subject.titled("StereoSet, kinds of the most rewarded sentence by target term"),
        f"{len(keys)} terms (items in brackets), those with most stereotypes first in each domain",
        [wide] * len(tables),
        [own.height],
        own.left,
        gap=0.35,
        head=0.1
        if not subject.several
        else 0.2 + 0.14 * max(wrapped(a.name, 20).count("\n") + 1 for a in subject.audits),
        legend=_kind_handles(),
    ).draw()
    for axes, audit, table in zip(panels, subject.audits, tables, strict=True):
        row_axis(axes, own, named=axes is panels[0])
        _stacks(axes, own.at, [table.get(key) for key in placed], told=False)
        axes.set_xticks([0, 0.5, 1.0])
        axes.set_xlabel("share (0 to 1)", fontsize=TEXT)
        if subject.several:
            axes.set_title(wrapped(audit.name, 20), fontsize=TEXT)
    return figure
