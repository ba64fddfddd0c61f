"""A run's results table on the terminal."""

from __future__ import annotations

import math

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from apm_lab.judging.health import Health
from apm_lab.report.personalization import ArmSummary, Summary
from apm_lab.studies.evaluation import BAYES, CONSTANT, CONTROLS, ORACLE

__all__ = ["print_summary", "results_table", "terminal"]

_WIDE = 104
_COLUMNS = {  # name: whether a narrow terminal does without
    "Delta (sd)": False,
    "95%": False,
    "W/L (sd)": False,
    "95% of W/L": True,
    "win rate": True,
    "accuracy": False,
    "n": True,
}
_KINDS = {ORACLE: "bound", BAYES: "ceiling", CONSTANT: "reference"}


def terminal() -> Console:
    """Return the terminal; a file or a pipe has no width of its own and gets one that holds the tables."""
    console = Console(highlight=False)  # a path with colours in it can't be copied
    return console if console.is_terminal else Console(highlight=False, width=120)


def print_summary(console: Console, title: str, summary: Summary, health: Health) -> None:
    """Print the results table and what must be read with it."""
    console.print(Group(results_table(title, summary, wide=console.width >= _WIDE), *_notes(summary, health)))


def results_table(title: str, summary: Summary, wide: bool = True) -> Table:
    """Return a row per arm: mean and s.d. over draws, 95% intervals; a narrow one leaves out what can be spared."""
    table = Table(title=escape(title), title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name, spared in _COLUMNS.items():
        if wide or not spared:
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for arm in summary.arms.values():
        cells = [cell for cell, spared in zip(_cells(arm), _COLUMNS.values(), strict=True) if wide or not spared]
        table.add_row(escape(arm.name), *cells, _kind(arm), style="bold" if arm.name == summary.method else None)
    return table


def _cells(arm: ArmSummary) -> list[str]:
    missing = f" (-{arm.n_missing})" if arm.n_missing else ""
    return [
        _figure(*arm.spread("delta"), signed=True),
        f"{arm.delta.low:+.2f} {arm.delta.high:+.2f}",
        _figure(*arm.spread("win_loss")),
        f"{arm.win_loss.low:.2f} {arm.win_loss.high:.2f}",
        f"{arm.win_rate.estimate:.3f}",
        f"{arm.accuracy:.3f}",
        f"{arm.n}{missing}",
    ]


def _kind(arm: ArmSummary) -> str:
    if arm.control is not None:
        return "control ok" if arm.control.passed else "VOID"
    return _KINDS.get(arm.name, "")


def _figure(mean: float, deviation: float, signed: bool = False) -> str:
    spread = "" if math.isnan(deviation) else f" ({deviation:.2f})"
    return f"{mean:{'+' if signed else ''}.2f}{spread}"


def _notes(summary: Summary, health: Health) -> list[Text]:
    notes = []
    method = summary.arms[summary.method]
    for name, compared in summary.comparisons.items():
        if name in CONTROLS or name in (BAYES, ORACLE):
            continue
        interval = compared.interval
        verdict = "significant" if compared.significant and not summary.void else "not significant"
        flips = compared.sign_flip
        p = f"sign flips p = {flips.p:.3f} ({flips.note})" if flips.p is not None else f"sign flips: {flips.note}"
        notes.append(
            Text(
                f"{summary.method} - {name}: Delta {interval.estimate:+.2f} "
                f"[{interval.low:+.2f}, {interval.high:+.2f}], {verdict}; {p}"
            )
        )
    if summary.bayes_accuracy is not None and summary.method not in (ORACLE, "nonpersonalized"):
        notes.append(
            Text(
                f"accuracy: {summary.method} {method.accuracy:.3f}, the Bayes reader of these histories "
                f"{summary.bayes_accuracy:.3f}"
            )
        )
    mean = sum(health.auc.values()) / len(health.auc) if health.auc else math.nan
    least = min(health.auc.values(), default=math.nan)
    pearson = "" if health.pearson is None else f", Pearson(s+, s-) {health.pearson:+.2f}"
    notes.append(Text(f"judge health: mean AUC {mean:.2f}, least {least:.2f}{pearson}"))
    if health.unchecked:
        notes.append(Text(f"judge health NOT checked for: {', '.join(health.unchecked)}", style="yellow"))
    if health.faults:
        notes.append(Text("JUDGE UNHEALTHY: " + "; ".join(health.faults), style="bold red"))
    if summary.void:
        notes.append(
            Text(f"VOID: control arm {', '.join(summary.void)} is not zero; nothing here counts", style="bold red")
        )
    if method.delta.note:
        notes.append(Text(f"intervals: {method.delta.note}"))
    return notes
