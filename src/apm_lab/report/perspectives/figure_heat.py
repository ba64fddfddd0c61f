"""A column per model: named above and below, and values in cells as colours with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apm_lab.report.perspectives.figure_layout import TALL, TEXT, Rows, fitted, on_colour

__all__ = ["COLUMN", "heat", "name_room", "named_columns"]

COLUMN = 0.95  # inches of a model's column


def named_columns(axes: Any, names: Sequence[str], own: Rows) -> None:  # noqa: ANN401 (matplotlib's)
    """Name the columns at 0, 1 .. below them, and above them too where the rows are many."""
    shown = [_fitted(name) for name in names]
    axes.set_xticks(range(len(shown)), shown, fontsize=TEXT)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.tick_params(axis="x", length=0, top=False, bottom=False, labeltop=own.height > TALL)


def name_room(names: Sequence[str], own: Rows | None = None) -> float:
    """Return the inches that names take below columns, or with `own` above its rows, where there may be none."""
    if own is not None and own.height <= TALL:
        return 0.0
    return 0.14 * max(_fitted(name).count("\n") + 1 for name in names) + 0.12


def _fitted(name: str) -> str:
    return fitted(name, COLUMN - 0.05)


def heat(
    axes: Any,  # noqa: ANN401 (matplotlib's)
    own: Rows,
    values: Sequence[Sequence[float | None]],
    bounds: tuple[float | None, float | None] = (0.0, 1.0),
    text: Sequence[Sequence[str]] | None = None,
) -> Any:  # noqa: ANN401 (matplotlib's)
    """Draw values (rows, columns) as colours with each number in its cell, a dash where there is none; return the mesh.

    `bounds` of the scale, the values' own where None; `text` stands in the cells in place of the values.
    """
    import numpy as np
    from matplotlib import colormaps

    table = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=np.float64)
    known = table[~np.isnan(table)]
    least, largest = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    low, high = (
        given if given is not None else float(own) for given, own in zip(bounds, (least, largest), strict=True)
    )
    high = high if high > low else low + 1e-9
    data = [place for place, heading in enumerate(own.headings) if not heading]
    spread = np.full((len(own.headings), table.shape[1]), np.nan)
    spread[data] = table
    image = axes.pcolormesh(
        np.arange(table.shape[1] + 1) - 0.5,
        own.edges,
        np.ma.masked_invalid(spread),
        cmap="cividis",
        vmin=low,
        vmax=high,
        edgecolors="white",
        linewidth=0.5,
    )
    shades = colormaps["cividis"]
    for row, place in enumerate(own.at):
        for column, value in enumerate(table[row]):
            shown = "–" if np.isnan(value) else f"{value:.2f}" if text is None else text[row][column]
            shade = "black" if np.isnan(value) else on_colour(shades((value - low) / (high - low)))
            axes.text(column, place, shown, fontsize=TEXT, ha="center", va="center", color=shade)
    return image
