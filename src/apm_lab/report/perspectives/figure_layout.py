"""The grounds of a figure: names that are wrapped, rows as high as their names, panels in inches, colours."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

__all__ = [
    "TALL",
    "TEXT",
    "Rows",
    "Sheet",
    "colour",
    "fitted",
    "inches_wide",
    "marker",
    "on_colour",
    "row_axis",
    "rows",
    "whole_ticks",
    "wrapped",
]

TEXT = 8.0  # points; no text is smaller
_LINE = 0.135  # inches of a line of text
_ROW = 0.19  # inches of a row with one line
_LEAST = 0.7  # inches of an axis
TALL = 7.0  # inches: a higher axis is named on top as well
_EDGE = 0.15
_NARROW = 5.5  # inches: a narrower figure has no room for its title
# Okabe & Ito, told apart by the colour-blind; yellow last, since it is faint on white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
_MARKERS = "os^DvPX*"


def colour(number: int) -> str:
    """Return the colour of the model at this place."""
    return _COLOURS[number % len(_COLOURS)]


def marker(number: int) -> str:
    """Return the shape of the model at this place: with its colour, another one for the first 64."""
    return _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)]


def on_colour(rgba: Sequence[float]) -> str:
    """Return the text colour that is read on this one."""
    return "white" if 0.299 * rgba[0] + 0.587 * rgba[1] + 0.114 * rgba[2] < 0.55 else "black"


def wrapped(text: str, letters: int) -> str:
    """Return the text in lines of at most so many letters, broken at blanks; a longer word at _ / , and hyphens.

    A dollar stays a dollar: matplotlib would read what stands between two as mathematics.
    """
    lines: list[str] = [""]
    for word in text.split():
        parts = [word] if len(word) <= letters else re.findall(r"[^_/,-]*[_/,-]?", word)
        for place, part in enumerate(filter(None, parts)):
            joint = " " if place == 0 and lines[-1] else ""
            if lines[-1] and len(lines[-1] + joint + part) > letters:
                lines.append("")
                joint = ""
            lines[-1] += joint + part
            while len(lines[-1]) > letters:
                lines[-1:] = [lines[-1][:letters], lines[-1][letters:]]
    return "\n".join(lines).replace("$", r"\$")


def fitted(text: str, inches: float, size: float = TEXT, weight: str = "normal") -> str:
    """Return the text in lines that are at most so wide."""
    letters = max(8, int(inches * 72 / size / 0.4))
    while letters > 8 and inches_wide(found := wrapped(text, letters), size, weight) > inches:
        letters -= max(1, letters // 25)
    return found if letters > 8 else wrapped(text, 8)


def inches_wide(text: str, size: float = TEXT, weight: str = "normal") -> float:
    """Return the width of a text's longest line."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        widths = [text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] for line in text.split("\n")]
    return float(max(widths)) / 72


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows from top to bottom, in inches: `edges` (n + 1), `centres` (n), names wrapped; headings hold no data.

    `at`: the centres of the rows that do.
    """

    names: tuple[str, ...]
    headings: tuple[bool, ...]
    edges: tuple[float, ...]
    centres: tuple[float, ...]
    at: tuple[float, ...]

    @property
    def height(self) -> float:
        """Return how high the axis is."""
        return max(_LEAST, self.edges[-1])

    @property
    def left(self) -> float:
        """Return how much room the names take."""
        weights = ["bold" if heading else "normal" for heading in self.headings]
        return max(inches_wide(name, weight=weight) for name, weight in zip(self.names, weights, strict=True)) + 0.1


def rows(names: Iterable[tuple[str, bool]], *, letters: int = 34, least: float = _ROW) -> Rows:
    """Return rows as high as their names (text, whether it is a heading) and at least `least` inches."""
    listed = [(wrapped(text, letters), heading) for text, heading in names]
    edges = [0.0]
    for text, heading in listed:
        edges.append(edges[-1] + max(_ROW if heading else least, _LINE * (text.count("\n") + 1) + 0.06))
    centres = [(top + bottom) / 2 for top, bottom in pairwise(edges)]
    at = [centre for centre, (_, heading) in zip(centres, listed, strict=True) if not heading]
    names_only, headings = zip(*listed, strict=True)
    return Rows(names_only, headings, tuple(edges), tuple(centres), tuple(at))


def row_axis(axes: Any, own: Rows, *, named: bool = True, grid: bool = True) -> None:  # noqa: ANN401 (matplotlib's)
    """Give the axes these rows, from top to bottom; only the leftmost of several names them."""
    spare = (own.height - own.edges[-1]) / 2
    axes.set_ylim(own.height - spare, -spare)
    axes.set_yticks(own.centres, own.names if named else [""] * len(own.names), fontsize=TEXT)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=TEXT, labeltop=own.height > TALL, top=own.height > TALL)
    for label, heading in zip(axes.get_yticklabels(), own.headings, strict=True):
        label.set_fontweight("bold" if heading else "normal")
        label.set_multialignment("right")
    if grid:
        axes.hlines(own.at, 0, 1, transform=axes.get_yaxis_transform(), color="0.9", linewidth=0.6, zorder=0)
        axes.grid(axis="x", color="0.9", linewidth=0.6, zorder=0)
        axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


@dataclass(slots=True)
class Sheet:
    """A figure whose panels have the sizes they were given, in inches, with a title and a legend above.

    `told` is said below the title: how much stands behind the figure. `left` is the room for the rows' names, `bottom`
    for the ticks and name of x, `right` for a scale. `legend`: (handle, text).
    """

    title: str
    told: str
    widths: Sequence[float]
    heights: Sequence[float]
    left: float
    bottom: float = 0.55
    right: float = 0.3  # a scale takes 1.1
    head: float = 0.1
    gap: float = 0.2
    row_gap: float = 0.2
    legend: Sequence[tuple[Any, str]] = ()

    def draw(self) -> tuple[Any, list[list[Any]]]:
        """Return the figure and its axes, by row and column."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        across = self.left + sum(self.widths) + self.gap * (len(self.widths) - 1) + self.right + _EDGE
        width = max(_NARROW, across)
        titles = [
            (fitted(text, width - 2 * _EDGE, size, weight), size, weight)
            for text, size, weight in ((self.title, 10.0, "bold"), (self.told, 8.5, "normal"))
        ]
        lines = [0.0165 * size * (text.count("\n") + 1) + 0.03 if text else 0.0 for text, size, _ in titles]
        room, columns = self._legend_room(width)
        top = _EDGE + sum(lines) + room
        down = sum(self.heights) + self.row_gap * (len(self.heights) - 1)
        height = top + self._head + down + self.bottom
        figure = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(figure)
        y = height - _EDGE / 2
        for (text, size, weight), line in zip(titles, lines, strict=True):
            figure.text(_EDGE / width, y / height, text, fontsize=size, fontweight=weight, va="top", ha="left")
            y -= line
        if self.legend:
            handles, names = zip(*self.legend, strict=True)
            place = (_EDGE / width, (y - 0.03) / height)
            figure.legend(
                *(handles, names),
                loc="upper left",
                bbox_to_anchor=place,
                ncols=columns,
                fontsize=TEXT,
                frameon=False,
                borderaxespad=0.0,
                borderpad=0.0,
            )
        panels = [
            [figure.add_axes(self._place(row, column, width, height, top)) for column in range(len(self.widths))]
            for row in range(len(self.heights))
        ]
        return figure, panels

    @property
    def _head(self) -> float:
        """Return the room above the panels: a high one has its ticks named on top as well."""
        return self.head + (0.22 if max(self.heights) > TALL else 0.0)

    def _place(
        self, row: int, column: int, width: float, height: float, top: float
    ) -> tuple[float, float, float, float]:
        x = _EDGE + self.left + sum(self.widths[:column]) + self.gap * column
        y = height - top - self._head - sum(self.heights[: row + 1]) - self.row_gap * row
        return x / width, y / height, self.widths[column] / width, self.heights[row] / height

    def _legend_room(self, width: float) -> tuple[float, int]:
        if not self.legend:
            return 0.0, 1
        widest = max(inches_wide(text) for _, text in self.legend) + 0.6
        columns = max(1, min(len(self.legend), int((width - 0.2) / widest)))
        lines = -(-len(self.legend) // columns)
        deep = max(text.count("\n") + 1 for _, text in self.legend)
        return lines * (0.125 * deep + 0.06) + 0.06, columns

    def scale(self, figure: Any, axes: Any, image: Any, name: str, *, whole: bool = False) -> None:  # noqa: ANN401 (matplotlib's)
        """Draw the colour scale of `image` right of the axes, in the room that `right` leaves."""
        width, height = figure.get_size_inches()
        box = axes.get_position()
        tall = min(2.5, box.height * height + max(0.0, self.bottom - 0.2))
        place = (box.x1 + 0.15 / width, box.y1 - tall / height, 0.13 / width, tall / height)
        bar = figure.colorbar(image, cax=figure.add_axes(place))
        bar.set_label(fitted(name, tall), fontsize=TEXT)
        bar.ax.tick_params(labelsize=TEXT)
        if whole:
            whole_ticks(bar.ax.yaxis)


def whole_ticks(axis: Any) -> None:  # noqa: ANN401 (matplotlib's)
    """Let an axis have ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
