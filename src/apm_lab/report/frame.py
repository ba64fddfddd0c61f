"""A named table: its columns as they are written to a file, and what of it is shown on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["Frame", "frame", "print_frame", "rows_of"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """`columns` by name, all of one length, None where there is no value (never NaN).

    `shown`: what is printed, heading -> format of a column's name: `"{alignment:.3f} [{low:.3f}, {high:.3f}]"`.
    `chosen`: the rows that are printed, None for all; `note` stands below.
    """

    name: str
    title: str
    columns: Mapping[str, Sequence[Any]]
    shown: Mapping[str, str] = field(default_factory=dict)
    chosen: Sequence[int] | None = None
    note: str = ""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values()), ()))


def frame(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    shown: Mapping[str, str],
    *,
    chosen: Sequence[int] | None = None,
    note: str = "",
) -> Frame:
    """Return the frame of rows; what is not finite is None in it."""
    listed = [[_plain(value) for value in row] for row in rows]
    if any(len(row) != len(columns) for row in listed):
        raise ValueError(f"{name}: rows of other lengths than {len(columns)} columns")
    return Frame(name, title, {key: [row[at] for row in listed] for at, key in enumerate(columns)}, shown, chosen, note)


def _plain(value: Any) -> Any:  # noqa: ANN401 (whatever a table holds)
    """Return a value as Python's own, None for NaN and infinities."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not abs(plain) < float("inf") else plain


def rows_of(frame: Frame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries."""
    return [dict(zip(frame.columns, values, strict=True)) for values in zip(*frame.columns.values(), strict=True)]


def print_frame(console: Console, frame: Frame) -> None:
    """Print the shown columns of the chosen rows; a cell none of whose values is there is `-`."""
    rows = rows_of(frame)
    chosen = range(len(rows)) if frame.chosen is None else frame.chosen
    table = Table(title=escape(frame.title), title_justify="left", box=SIMPLE, pad_edge=False)
    for place, heading in enumerate(frame.shown):
        table.add_column(escape(heading), justify="left" if place == 0 else "right", overflow="fold")
    for number in chosen:
        table.add_row(*(escape(_cell(form, rows[number])) for form in frame.shown.values()))
    console.print(table)
    for line in filter(None, frame.note.splitlines()):
        console.print(line, soft_wrap=True, markup=False)


class _Lenient(dict[str, Any]):
    """Formats None as `-` whatever its format says."""

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        value = super().__getitem__(key)
        return _Nothing() if value is None else value


class _Nothing:
    def __format__(self, _spec: str) -> str:
        return "-"


def _cell(form: str, row: Row) -> str:
    return form.format_map(_Lenient(row))
