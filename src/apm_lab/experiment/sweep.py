"""A multirun: one job's failure is noted and takes no other with it; one table over all jobs ends it."""

from __future__ import annotations

import csv
import io
import json
import math
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback

from apm_lab.errors import ApmLabError

if TYPE_CHECKING:  # Hydra loads this file at every start, also for `--cfg`
    from rich.console import Console
    from rich.table import Table

    from apm_lab.experiment.run import Outcome

__all__ = ["SweepSummary", "begin", "conclude", "exit_code", "planned", "run_one"]

_FIGURES = ("delta", "delta_low", "delta_high", "wl", "log_wl", "win_rate", "accuracy", "void", "judge_unhealthy")
_MOST_FIGURES = 6  # of a study without a Delta that a table has room for
_RECORD = "job.json"
_LOST: dict[str, Any] = {"overrides": [], "state": "lost", "code": 1, "message": "killed or never started"}
_failed: dict[str, int] = {"worst": 0}
_under_way: list[Any] = []  # the configuration of the multirun that has no table yet


def run_one(
    context: Any,  # noqa: ANN401 (Hydra's own config type)
    overrides: list[str],
    run: Callable[[], Outcome],
    console: Console,
) -> float | None:
    """Run one job, keep its outcome in `job.json` of its Hydra folder, and return its first headline figure.

    That is Delta, or what another study is summed up in; None when the job failed.
    """
    from rich.markup import escape

    from apm_lab.experiment.run_folder import RunFolder

    folder = Path(context.runtime.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    _mask(folder.parent / "multirun.yaml")
    (folder / _RECORD).unlink(missing_ok=True)  # of an earlier multirun in the same folder
    record: dict[str, Any] = {"number": context.job.num, "overrides": overrides}
    console.rule(escape(f"job {context.job.num}: {' '.join(overrides)}"), align="left")
    try:
        outcome = run()
        record |= {"state": outcome.state, "folder": str(outcome.folder), "figures": outcome.figures}
    except Exception as fault:
        user = isinstance(fault, ApmLabError)
        message = str(fault) if user else f"{type(fault).__name__}: {fault}"
        record |= {"state": "failed", "code": 2 if user else 1, "message": message}
        with suppress(OSError):
            (folder / "traceback.txt").write_text(traceback.format_exc())
        console.print(f"job {context.job.num} failed: {message}", style="red", markup=False, soft_wrap=True)
    try:
        RunFolder(folder).write_json(_RECORD, record)
    except ApmLabError as fault:  # the table will say that this job left no record
        console.print(str(fault), style="red", markup=False, soft_wrap=True)
    first: float | None = next(iter(record.get("figures", {}).values()), None)
    return first


def _mask(file: Path) -> None:
    """Take secrets out of the overrides in a file that Hydra has written before any job began."""
    from apm_lab.training.credentials import without_secret_overrides

    if file.is_file():
        text = file.read_text(encoding="utf-8")
        if (masked := without_secret_overrides(text)) != text:
            file.write_text(masked, encoding="utf-8")


def begin() -> None:
    """Forget an earlier multirun of this process."""
    _failed["worst"] = 0
    _under_way.clear()


def planned() -> None:
    """Take it that the multirun was only planned: no job leaves a record."""
    _under_way.clear()


def exit_code() -> int:
    """Return the exit code of this process's multirun: 0, 2 when a job failed by a mistake, 1 by any other fault."""
    return _failed["worst"]


class SweepSummary(Callback):
    """Hydra callback: notes that a multirun begins, so that `conclude` can end it with its table."""

    def on_multirun_start(self, config: Any, **_: object) -> None:  # noqa: ANN401
        """Keep the configuration; write the keys of a preset's own grid as those of the command line are, which win."""
        _force_keys(config.hydra.sweeper)
        _under_way.append(config)


def _force_keys(sweeper: Any) -> None:  # noqa: ANN401 (Hydra's own config type)
    """Write a sweeper's parameters as `forced` writes what was typed: else the two would be two keys of one grid."""
    from omegaconf import read_write

    from apm_lab.experiment.arguments import forced_key
    from apm_lab.experiment.option_files import groups_of

    if sweeper.get("params"):
        groups = groups_of([])
        with read_write(sweeper):
            sweeper.params = {forced_key(str(key), groups): value for key, value in sweeper.params.items()}


def conclude() -> None:
    """Print the table over the jobs of a multirun that has ended, whole or cut short, and write it as `summary.csv`.

    Jobs that left no record are in it: they were killed, or their turn never came.
    """
    if not _under_way:
        return
    from apm_lab.experiment.run_folder import RunFolder
    from apm_lab.report.table import terminal

    hydra = _under_way.pop().hydra
    folder, count = Path(hydra.sweep.dir), _count(hydra)
    found = {job["number"]: job for job in map(_record, folder.glob(f"*/{_RECORD}")) if job}
    if not found:
        _failed["worst"] = 1
        return
    numbers = range(max(found) + 1 if count is None else count)
    jobs = [found.get(number) or {"number": number, **_LOST} for number in numbers]
    _failed["worst"] = max(job.get("code", 0) for job in jobs)
    console = terminal()
    console.print(_table(jobs))
    text = io.StringIO()
    names = _names(jobs)
    head = ["job", "overrides", "state", *names, "folder", "message"]
    csv.writer(text, lineterminator="\n").writerows([head, *(_line(job, names) for job in jobs)])
    RunFolder(folder).write_text("summary.csv", text.getvalue())
    console.print(f"summary: {folder / 'summary.csv'}", soft_wrap=True, markup=False)
    _compare(console, folder, jobs)


def _compare(console: Console, folder: Path, jobs: list[dict[str, Any]]) -> None:
    """Print the methods side by side where jobs differ in the method only, and write them as `comparison.parquet`."""
    from apm_lab.experiment.comparable import compare_jobs

    finished = [job for job in jobs if job["state"] in ("done", "skipped")]
    try:
        if compare_jobs(console, finished, folder):
            console.print(f"comparison: {folder / 'comparison.parquet'}", soft_wrap=True, markup=False)
    except ApmLabError as fault:  # the file can't be written; the runs stand
        console.print(str(fault), style="yellow", markup=False, soft_wrap=True)


def _count(hydra: Any) -> int | None:  # noqa: ANN401
    """Return how many jobs the overrides make, None where another sweeper than Hydra's own decides."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    if not str(hydra.sweeper.get("_target_")).endswith(".BasicSweeper"):
        return None
    fixed = [f"{key}={value}" for key, value in (hydra.sweeper.get("params") or {}).items()]
    given = OverridesParser.create().parse_overrides([*fixed, *map(str, hydra.overrides.task)])
    choices = {each.get_key_element(): each for each in given}.values()  # the last one of a key counts
    return math.prod(len(list(each.sweep_string_iterator())) for each in choices if each.is_sweep_override())


def _record(file: Path) -> dict[str, Any]:
    """Return a job's record, nothing where it is damaged."""
    with suppress(OSError, ValueError):
        content = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(content, dict) and isinstance(content.get("number"), int):
            return content
    return {}


def _names(jobs: list[dict[str, Any]]) -> list[str]:
    """Return the names of the jobs' figures: the benchmark's, or those of another study."""
    found = dict.fromkeys(name.removeprefix("test/") for job in jobs for name in job.get("figures", {}))
    return list(_FIGURES) if "delta" in found or not found else list(found)


def _table(jobs: list[dict[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    given = [set(job["overrides"]) for job in jobs if job["state"] != "lost"]
    shared = set.intersection(*given) if len(jobs) > 1 else set()
    names = _names(jobs)
    table = Table(title=f"{len(jobs)} jobs", title_justify="left")
    benchmark = names == list(_FIGURES)
    heads = ["Delta", "95% interval", "W/L", "win rate", "accuracy"] if benchmark else names[:_MOST_FIGURES]
    for column in ("job", *heads, "state"):
        table.add_column(column)
    for job in jobs:
        varied = " ".join(override for override in job["overrides"] if override not in shared) or "(defaults)"
        name = f"job {job['number']}" if job["state"] == "lost" else varied
        figures = _figures(job, names)
        cells = _cells(figures) if benchmark else [_plain(figures[each]) for each in heads]
        table.add_row(escape(name), *cells, escape(_state(job)))
    return table


def _line(job: dict[str, Any], names: list[str]) -> list[Any]:
    said = job.get("folder", ""), job.get("message", "")
    return [job["number"], " ".join(job["overrides"]), job["state"], *_figures(job, names).values(), *said]


def _figures(job: dict[str, Any], names: list[str]) -> dict[str, float]:
    return {name: job.get("figures", {}).get(f"test/{name}", math.nan) for name in names}


def _plain(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def _cells(figures: dict[str, Any]) -> list[str]:
    if math.isnan(figures["delta"]):
        return ["-"] * 5
    interval = f"{figures['delta_low']:+.2f} .. {figures['delta_high']:+.2f}"
    accuracy = "-" if figures["accuracy"] is None else f"{figures['accuracy']:.3f}"
    rest = [f"{figures['wl']:.2f}", f"{figures['win_rate']:.3f}", accuracy]
    return [f"{figures['delta']:+.2f}", interval, *rest]


def _state(job: dict[str, Any]) -> str:
    if job["state"] in ("failed", "lost"):
        return f"{job['state']}: {job['message']}"
    marks = {"void": "VOID", "judge_unhealthy": "JUDGE UNHEALTHY"}
    found = [mark for name, mark in marks.items() if job.get("figures", {}).get(f"test/{name}")]
    return ", ".join([str(job["state"]), *found])
