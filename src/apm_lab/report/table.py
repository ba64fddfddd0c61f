"""A run's results table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from apm_lab.judging.health import Health
from apm_lab.maths.paired import Comparison
from apm_lab.report.personalization import ArmSummary, Summary
from apm_lab.studies.evaluation import BAYES, CONSTANT, CONTROLS, ORACLE

__all__ = ["compared", "flags", "left_out", "print_summary", "results_table", "terminal"]

_COLUMNS = {  # name: how wide a terminal must be to have it
    "Delta (sd)": 0,
    "95%": 0,
    "W/L (sd)": 0,
    "95% of W/L": 118,
    "log W/L": 130,
    "win rate": 108,
    "accuracy": 92,
    "n": 100,
}
_LEAST_P = 0.001
_KINDS = {ORACLE: "bound", BAYES: "best reader", CONSTANT: "reference"}


def terminal() -> Console:
    """Return the terminal; a file or a pipe has no width of its own and gets one that holds the tables."""
    console = Console(highlight=False)  # a path with colours in it can't be copied
    return console if console.is_terminal else Console(highlight=False, width=130)


def print_summary(console: Console, title: str, summary: Summary, health: Health) -> None:
    """Print the results table and what must be read with it."""
    notes = _notes(summary, health)
    console.print(Group(results_table(title, summary, console.width), *left_out(console.width), *notes))


def left_out(width: int) -> list[Text]:
    """Return the note on the columns that a terminal of this width has no room for, nothing where it has."""
    spared = [name for name, least in _COLUMNS.items() if width < least]
    return [Text(f"left out for want of width: {', '.join(spared)}", style="dim")] if spared else []


def flags(void: bool, unhealthy: bool) -> list[str]:
    """Return what must be said wherever a figure of such a run is shown."""
    said = {
        "VOID: a control arm is not zero; nothing here counts": void,
        "JUDGE UNHEALTHY: it failed its health check and was used all the same": unhealthy,
    }
    return [text for text, holds in said.items() if holds]


def results_table(title: str, summary: Summary, width: int = 200, marks: Mapping[str, str] | None = None) -> Table:
    """Return a row per arm: mean and s.d. over draws, 95% intervals; a narrow one leaves out what can be spared.

    `marks` stand in an arm's last column in place of what is said there otherwise.
    """
    table = Table(title=escape(title), title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("method", overflow="fold")
    for name, least in _COLUMNS.items():
        if width >= least:
            table.add_column(name, justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    for arm in summary.arms.values():
        cells = [cell for cell, least in zip(_cells(arm), _COLUMNS.values(), strict=True) if width >= least]
        table.add_row(escape(arm.name), *cells, _mark(arm, marks), style="bold" if arm.name == summary.method else None)
    return table


def _cells(arm: ArmSummary) -> list[str]:
    missing = f" (-{arm.n_missing})" if arm.n_missing else ""
    return [
        _figure(*arm.spread("delta"), signed=True),
        f"{arm.intervals['delta'].low:+.2f} {arm.intervals['delta'].high:+.2f}",
        _figure(*arm.spread("wl")),
        f"{arm.intervals['wl'].low:.2f} {arm.intervals['wl'].high:.2f}",
        f"{arm.spread('log_wl')[0]:+.2f}",
        f"{arm.intervals['win_rate'].estimate:.3f}",
        "-" if arm.accuracy is None else f"{arm.accuracy:.3f}",
        f"{arm.n}{missing}",
    ]


def _mark(arm: ArmSummary, marks: Mapping[str, str] | None) -> str:
    return (marks or {}).get(arm.name) or _kind(arm)


def _kind(arm: ArmSummary) -> str:
    if arm.control is not None and not math.isfinite(arm.control.high):
        return "control untested"
    if arm.control is not None:
        return "control ok" if arm.control.passed else "VOID"
    return _KINDS.get(arm.name, "")


def _figure(mean: float, deviation: float, signed: bool = False) -> str:
    spread = "" if math.isnan(deviation) else f" ({deviation:.2f})"
    return f"{mean:{'+' if signed else ''}.2f}{spread}"


def _notes(summary: Summary, health: Health) -> list[Text]:
    method = summary.arms[summary.method]
    others = [name for name in summary.comparisons if name not in (*CONTROLS, BAYES, ORACLE)]
    notes = [
        Text(f"{summary.method} - {name}: {compared(summary.comparisons[name], summary.significant(name))}")
        for name in others
    ]
    if summary.bayes_accuracy is not None and method.accuracy is not None and summary.method != ORACLE:
        ceiling = f"the Bayes reader of these histories {summary.bayes_accuracy:.3f}"
        notes.append(Text(f"accuracy: {summary.method} {method.accuracy:.3f}, {ceiling}"))
    for arm in summary.arms.values():
        left_out = {
            "training users or prompts left out (ratings missing or equal)": arm.dropped,
            "histories, answers or examples cut (to max_tokens or method.context_tokens)": arm.truncated,
        }
        said = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
        if said:
            notes.append(Text(f"{arm.name}: {said}, over all draws", style="yellow"))
    notes += _health_notes(health)
    if summary.void:
        notes.append(
            Text(f"VOID: control arm {', '.join(summary.void)} is not zero; nothing here counts", style="bold red")
        )
    if method.intervals["delta"].note:
        notes.append(Text(f"intervals: {method.intervals['delta'].note}"))
    return notes


def compared(comparison: Comparison, significant: bool) -> str:
    """Return a comparison in words: the difference with its interval, the verdict, and the sign-flip test."""
    interval, flips = comparison.interval, comparison.sign_flip
    verdict = "significant" if significant else "not significant"
    if interval.blocks < 2:
        verdict = "for this draw alone, which decides nothing"
    chance = f"p < {_LEAST_P}" if flips.p is not None and flips.p < _LEAST_P else f"p = {flips.p or 0:.3f}"
    p = f"sign flips {chance} ({flips.note})" if flips.p is not None else f"sign flips: {flips.note}"
    return f"Delta {interval.estimate:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}], {verdict}; {p}"


def _health_notes(health: Health) -> list[Text]:
    notes = []
    if health.auc:
        mean, least = sum(health.auc.values()) / len(health.auc), min(health.auc.values())
        both = "" if health.pearson is None else f", Pearson(s+, s-) {health.pearson:+.2f}"
        both += "" if health.imbalance is None else f", mean |s+ + s- - 11| {health.imbalance:.2f}"
        both += ", s- = 11 - s+ by construction" if health.mirrored else ""
        notes.append(Text(f"judge health: mean AUC {mean:.2f}, least {least:.2f}{both}"))
    if health.unchecked:
        notes.append(Text(f"judge health NOT checked for: {', '.join(health.unchecked)}", style="yellow"))
    if health.faults:
        notes.append(Text("JUDGE UNHEALTHY: " + "; ".join(health.faults), style="bold red"))
    return notes
