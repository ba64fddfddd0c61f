"""A multirun: one job's failure is noted and takes no other with it; one table over all jobs ends it."""

from __future__ import annotations

import csv
import json
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback

from apm_lab.errors import ApmLabError

if TYPE_CHECKING:  # Hydra loads this file at every start, also for `--cfg`
    from rich.console import Console

    from apm_lab.experiment.run import Outcome

__all__ = ["SweepSummary", "begin", "exit_code", "run_one"]

_FIGURES = ("delta", "delta_low", "delta_high", "wl", "log_wl", "win_rate", "accuracy", "void", "judge_unhealthy")
_failed: dict[str, int] = {"worst": 0}


def run_one(
    context: Any,  # noqa: ANN401 (Hydra's own config type)
    overrides: list[str],
    run: Callable[[], Outcome],
    console: Console,
) -> float | None:
    """Run one job, keep its outcome in `job.json` of its Hydra folder, and return its Delta, None when it failed."""
    from rich.markup import escape

    folder = Path(context.runtime.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"number": context.job.num, "overrides": overrides}
    console.rule(escape(f"job {context.job.num}: {' '.join(overrides)}"), align="left")
    try:
        outcome = run()
        record |= {"state": outcome.state, "folder": str(outcome.folder), "figures": outcome.figures}
    except Exception as fault:
        user = isinstance(fault, ApmLabError)
        message = str(fault) if user else f"{type(fault).__name__}: {fault}"
        record |= {"state": "failed", "code": 2 if user else 1, "message": message}
        (folder / "traceback.txt").write_text(traceback.format_exc())
        console.print(f"job {context.job.num} failed: {message}", style="red", markup=False, soft_wrap=True)
    (folder / "job.json").write_text(json.dumps(record, indent=2))
    delta: float | None = record.get("figures", {}).get("test/delta")
    return delta


def begin() -> None:
    """Forget the failures of an earlier multirun of this process."""
    _failed["worst"] = 0


def exit_code() -> int:
    """Return the exit code of this process's multirun: 0, 2 when a job failed by a mistake, 1 by a fault of ours."""
    return _failed["worst"]


class SweepSummary(Callback):
    """Hydra callback: prints the table over a multirun's jobs and writes it as `summary.csv`."""

    def on_multirun_end(self, config: Any, **_: object) -> None:  # noqa: ANN401
        """Read every job's record; what left none was killed."""
        from rich.markup import escape
        from rich.table import Table

        from apm_lab.report.table import terminal

        folder = Path(config.hydra.sweep.dir)
        jobs = sorted(
            (json.loads(file.read_text()) for file in folder.glob("*/job.json")), key=lambda job: job["number"]
        )
        if not jobs:
            return
        shared = set.intersection(*(set(job["overrides"]) for job in jobs)) if len(jobs) > 1 else set()
        table = Table(title=f"{len(jobs)} jobs", title_justify="left")
        for column in ("job", "Delta", "95% interval", "W/L", "win rate", "accuracy", "state"):
            table.add_column(column)
        lines: list[list[Any]] = [["job", "overrides", "state", *_FIGURES, "folder", "message"]]
        for job in jobs:
            varied = " ".join(override for override in job["overrides"] if override not in shared) or "(defaults)"
            figures = {name: job.get("figures", {}).get(f"test/{name}", math.nan) for name in _FIGURES}
            table.add_row(escape(varied.replace("++", "")), *_cells(figures), escape(_state(job)))
            said = job.get("folder", ""), job.get("message", "")
            lines.append([job["number"], " ".join(job["overrides"]), job["state"], *figures.values(), *said])
            _failed["worst"] = max(_failed["worst"], job.get("code", 0))
        console = terminal()
        console.print(table)
        with (folder / "summary.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows(lines)
        console.print(f"summary: {folder / 'summary.csv'}", soft_wrap=True, markup=False)


def _cells(figures: dict[str, Any]) -> list[str]:
    if math.isnan(figures["delta"]):
        return ["-"] * 5
    interval = f"{figures['delta_low']:+.2f} .. {figures['delta_high']:+.2f}"
    accuracy = "-" if figures["accuracy"] is None else f"{figures['accuracy']:.3f}"
    rest = [f"{figures['wl']:.2f}", f"{figures['win_rate']:.3f}", accuracy]
    return [f"{figures['delta']:+.2f}", interval, *rest]


def _state(job: dict[str, Any]) -> str:
    if job["state"] == "failed":
        return f"failed: {job['message']}"
    marks = {"void": "VOID", "judge_unhealthy": "JUDGE UNHEALTHY"}
    found = [mark for name, mark in marks.items() if job.get("figures", {}).get(f"test/{name}")]
    return ", ".join([str(job["state"]), *found])
