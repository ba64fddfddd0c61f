"""One run of the benchmark: built, computed, written, and told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.console import Console

from apm_lab.data.store import Store
from apm_lab.experiment.build import build_personalization, read_data
from apm_lab.experiment.build_method import baseline_node, roles_of
from apm_lab.experiment.claim import Claim
from apm_lab.experiment.identity import run_identity
from apm_lab.experiment.job import Job
from apm_lab.experiment.manifest import manifest, peak_mb
from apm_lab.experiment.progress import StageProgress
from apm_lab.experiment.run_folder import DrawParts, RunFolder
from apm_lab.experiment.run_trackers import run_trackers
from apm_lab.experiment.spending import Spending
from apm_lab.language.recall import CallCounts
from apm_lab.report.personalization import Summary, comparison_columns, results_columns, summarise, users_columns
from apm_lab.report.table import print_summary
from apm_lab.studies.outlook import collect
from apm_lab.studies.personalization import PersonalizationDraws
from apm_lab.training.queued_log import queued
from apm_lab.training.trackers import Cell, Trackers

__all__ = ["PersonalizationRun"]


class PersonalizationRun:
    """A run of study=personalization by its sound, completed config."""

    def __init__(self, job: Job, config: Mapping[str, Any]) -> None:
        self._job, self._config = job, config
        self._data, self._baseline = read_data(config), baseline_node(config, job.choices, job.folders)
        self.identity = run_identity(config, self._data.digest, self._baseline)

    def compute(self, claim: Claim, console: Console) -> dict[str, float | None]:
        """Compute the run into its folder, print its table and return its headline figures."""
        started, config = time.monotonic(), self._config
        folder, store = RunFolder(claim.folder), Store(**config["store"])
        for name, text in self._job.hydra_files.items():
            folder.write_text(f".hydra/{name}", text)
        counts, spending = {role: CallCounts() for role in roles_of(config)}, Spending(config, folder)
        trackers = run_trackers(config, self.identity, self._job.method, claim.folder, console)
        code = 1
        try:
            progress = StageProgress(console if console.is_terminal else None, counts)
            with queued(partial(_send, trackers)) as (log, settle), progress:
                study = build_personalization(
                    config,
                    self._job.method,
                    self._baseline,
                    self._data,
                    store,
                    counts,
                    log,
                    folder.checkpoint_folder,
                    guard=spending.guard,
                )
                collect(study, counts, progress)
                draws = study.run(progress, DrawParts(folder, settle))
            summary = summarise(draws, config["seed"])
            _write_results(folder, draws, summary, config["seed"])
            figures = _headline(summary)
            _report(trackers, summary, figures)
            seconds = time.monotonic() - started
            described = manifest(
                self._job, config, self.identity, self._data, study, draws, progress, store, figures, seconds
            )
            described["budget"] = spending.told()
            described["resumed"] = claim.resumed  # calls, stages and times are then those of the last process alone
            folder.write_json("manifest.json", described)
            claim.finish()
            code = 0
        finally:
            trackers.finish(code)
            store.close()
            spending.keep()
        print_summary(console, described["title"], summary, draws.health)
        _tell_blanks(console, counts)
        seconds = time.monotonic() - started
        console.print(f"results: {claim.folder} ({seconds:.0f} s, {peak_mb():.0f} MB)", soft_wrap=True, markup=False)
        return figures


def _send(trackers: Trackers, name: str, figures: dict[str, float]) -> None:
    """Log an arm's training figures under its name, at their step where they have one."""
    step = figures.get("step")
    named = {f"{name}/{key}": value for key, value in figures.items() if key != "step"}
    trackers.log(named, None if step is None else int(step))


def _tell_blanks(console: Console, counts: Mapping[str, CallCounts]) -> None:
    for role, count in counts.items():
        if count.blank:
            console.print(f"{role}: {count.blank} of the {count.made} answers made hold no text", style="bold red")


def _write_results(folder: RunFolder, draws: PersonalizationDraws, summary: Summary, seed: int) -> None:
    folder.write_parquet("results.parquet", results_columns(draws, summary, seed))
    folder.write_parquet("comparisons.parquet", comparison_columns(summary))
    folder.write_parquet("users.parquet", users_columns(draws))


def _headline(summary: Summary) -> dict[str, float | None]:
    method = summary.arms[summary.method]
    figures = {
        "delta": method.spread("delta")[0],
        "delta_low": method.intervals["delta"].low,
        "delta_high": method.intervals["delta"].high,
        "wl": method.spread("wl")[0],
        "wl_low": method.intervals["wl"].low,
        "wl_high": method.intervals["wl"].high,
        "log_wl": method.spread("log_wl")[0],
        "win_rate": method.intervals["win_rate"].estimate,
        "accuracy": method.accuracy,
        "void": float(bool(summary.void)),
        "judge_unhealthy": float(bool(summary.unhealthy)),
    }
    return {f"test/{name}": value for name, value in figures.items()}


def _report(trackers: Trackers, summary: Summary, figures: Mapping[str, float | None]) -> None:
    trackers.summary({name: value for name, value in figures.items() if value is not None})
    rows: list[list[Cell]] = [
        [
            arm.name,
            *arm.spread("delta"),
            *arm.spread("wl"),
            arm.spread("log_wl")[0],
            arm.intervals["win_rate"].estimate,
            arm.accuracy,
            arm.n,
        ]
        for arm in summary.arms.values()
    ]
    columns = ("method", "delta", "delta_sd", "wl", "wl_sd", "log_wl", "win_rate", "accuracy", "n")
    trackers.table("arms", columns, rows)
