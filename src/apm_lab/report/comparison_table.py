"""Methods side by side on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.text import Text

from apm_lab.report.comparison import UNADJUSTED, SideBySide
from apm_lab.report.table import compared, left_out, results_table

__all__ = ["print_side_by_side"]


def print_side_by_side(console: Console, title: str, table: SideBySide, notes: Sequence[str] = ()) -> None:
    """Print a row per method and below it a line per pair, with what must be read with them."""
    marks = dict.fromkeys(table.unhealthy, "JUDGE UNHEALTHY") | dict.fromkeys(table.void, "VOID RUN")
    lines = [
        Text(f"{name} - {other}: {compared(found, table.significant((name, other)))}")
        for (name, other), found in table.pairs.items()
    ]
    head = Text(f"paired on the same users and draws, {UNADJUSTED}:")
    said = {
        "VOID: a control arm is not zero and nothing counts in the run of": table.void,
        "JUDGE UNHEALTHY: it failed its health check and was used all the same in the run of": table.unhealthy,
    }
    flagged = [Text(f"{what} {', '.join(names)}", style="bold red") for what, names in said.items() if names]
    rows = results_table(title, table.summary, console.width, marks)
    console.print(Group(rows, *left_out(console.width), head, *lines, *flagged, *map(Text, notes)))
