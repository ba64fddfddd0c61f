"""The bill of a command, on the terminal, before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apm_lab.language.bill import Line

__all__ = ["print_plan"]

_COLUMNS = ("unique", "stored", "to make", "tokens in", "tokens out", "USD", "time")


def print_plan(console: Console, runs: int, done: Sequence[str], lines: Sequence[Line]) -> None:
    """Print a row per role and model, their sum, and how well the figures are known."""
    console.print(f"plan: {runs} {'run' if runs == 1 else 'runs'}, no model was called", highlight=False)
    for folder in done:
        console.print(f"  0 calls: done already, results in {folder}", soft_wrap=True, markup=False)
    if not lines:
        return
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("role")
    table.add_column("model")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(line.role, escape(line.model[:40]), *_cells(line))
    table.add_section()
    table.add_row("all", "", *_total(lines))
    console.print(table)
    for note in _notes(lines):
        console.print(note, soft_wrap=True, markup=False, highlight=False)


def _cells(line: Line) -> list[str]:
    bound, mark = "at most " if line.open else "", "" if line.basis == "measured" or not line.missing else "~"
    return [
        f"{bound}{line.asked:,}",
        f"{line.stored:,}",
        f"{bound}{line.missing:,}",
        f"{mark}{line.tokens_in:,}",
        f"{'~' if line.basis != 'measured' and line.missing else ''}{line.tokens_out:,}",
        "no price" if line.usd is None else f"{mark if line.usd else ''}{line.usd:,.2f}",
        "unknown" if line.seconds is None else _time(line.seconds),
    ]


def _total(lines: Sequence[Line]) -> list[str]:
    bound = "at most " if any(line.open for line in lines) else ""
    mark = "~" if any(line.basis != "measured" and line.missing for line in lines) else ""
    costs = [line.usd for line in lines]
    times = [line.seconds for line in lines]
    known = sum(usd for usd in costs if usd is not None)
    return [
        f"{bound}{sum(line.asked for line in lines):,}",
        f"{sum(line.stored for line in lines):,}",
        f"{bound}{sum(line.missing for line in lines):,}",
        f"{mark}{sum(line.tokens_in for line in lines):,}",
        f"{mark}{sum(line.tokens_out for line in lines):,}",
        _money(known, mark, None in costs),
        _time(sum(seconds for seconds in times if seconds is not None)) if None not in times else "unknown",
    ]


def _money(known: float, mark: str, incomplete: bool) -> str:
    if incomplete:
        return f"{mark}{known:,.2f} + no price" if known else "no price"
    return f"{mark if known else ''}{known:,.2f}"


def _notes(lines: Sequence[Line]) -> list[str]:
    notes = []
    if any(line.open for line in lines):
        notes.append("at most: some texts are not written yet, and equal ones are asked about once only")
    for basis, story in (
        ("estimated", "tokens at four characters a token and usual lengths of answers"),
        ("tokenizer", "tokens read counted by the model's tokenizer on some calls, written ones at usual lengths"),
    ):
        roles = sorted({line.role for line in lines if line.basis == basis and line.missing})
        if roles:
            notes.append(f"~ estimated ({', '.join(roles)}): {story}; the store has measured none of this model yet")
    unpriced = sorted({line.model.partition("@")[0] for line in lines if line.usd is None})
    if unpriced:
        notes.append(f"no price: add prices.models to the configuration for {', '.join(unpriced)}")
    if any(line.seconds is None for line in lines):
        notes.append("unknown time: the store has no rate of this model yet; a smaller run measures one")
    return notes


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
