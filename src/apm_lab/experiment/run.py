"""One run: from a composed config to a finished folder, or a clean skip."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab.data.store import Store
from apm_lab.experiment.build import Data, build_personalization, read_data
from apm_lab.experiment.build_method import baseline_node, roles_of
from apm_lab.experiment.claim import Claim, claim_run, finished_figures
from apm_lab.experiment.identity import run_identity
from apm_lab.experiment.job import Job
from apm_lab.experiment.making import make
from apm_lab.experiment.manifest import manifest, peak_mb
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.progress import StageProgress
from apm_lab.experiment.run_folder import DrawParts, RunFolder, full_disk_named, new_folder
from apm_lab.experiment.schema import completed
from apm_lab.experiment.spending import Spending
from apm_lab.language.recall import CallCounts
from apm_lab.report.personalization import Summary, comparison_columns, results_columns, summarise, users_columns
from apm_lab.report.table import flags, print_summary
from apm_lab.studies.outlook import collect
from apm_lab.studies.personalization import PersonalizationDraws
from apm_lab.training.queued_log import queued
from apm_lab.training.trackers import Cell, CsvTracker, Trackers, WandbTracker

__all__ = ["Outcome", "execute"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `done`, `skipped` (its results exist) or `busy` (another process has it), and its figures."""

    state: str
    folder: Path
    figures: dict[str, float | None]


def execute(job: Job, console: Console) -> Outcome:
    """Return the outcome of a job; raises ApmLabError for whatever the user can mend."""
    config = completed(job.config)
    require_sound(config)
    data, baseline = read_data(config), baseline_node(config, job.choices, job.folders)
    identity = run_identity(config, data.digest, baseline)
    outputs = Path(config["outputs"])
    fresh = new_folder(outputs, str(job.choices.get("study")), identity, datetime.now())
    claim = claim_run(outputs / ".claims", identity, fresh)
    if claim.state == "done":
        console.print(
            f"skipped: this run is done already, its results are in {claim.folder}\n"
            f"its table: python -m apm_lab report {claim.folder}",
            soft_wrap=True,
            markup=False,
        )
        figures = finished_figures(claim.folder) or {}
        for flag in flags(bool(figures.get("test/void")), bool(figures.get("test/judge_unhealthy"))):
            console.print(f"{flag} (that run)", style="bold red")
        return Outcome("skipped", claim.folder, figures)
    if claim.state == "busy":
        console.print(f"skipped: {claim.owner} is computing this run in {claim.folder}", soft_wrap=True, markup=False)
        return Outcome("busy", claim.folder, {})
    if claim.resumed:
        console.print(f"continuing the run that was interrupted in {claim.folder}", soft_wrap=True, markup=False)
    with full_disk_named(), claim.held():
        return _compute(job, config, baseline, data, identity, claim, console)


def _compute(
    job: Job,
    config: Mapping[str, Any],
    baseline: Mapping[str, Any] | None,
    data: Data,
    identity: str,
    claim: Claim,
    console: Console,
) -> Outcome:
    started = time.monotonic()
    folder, store = RunFolder(claim.folder), Store(**config["store"])
    for name, text in job.hydra_files.items():
        folder.write_text(f".hydra/{name}", text)
    counts, spending = {role: CallCounts() for role in roles_of(config)}, Spending(config, folder)
    trackers = _trackers(config, identity, job.method, claim.folder, console)

    def send(name: str, figures: dict[str, float]) -> None:
        step = figures.get("step")
        named = {f"{name}/{key}": value for key, value in figures.items() if key != "step"}
        trackers.log(named, None if step is None else int(step))

    code = 1
    try:
        progress = StageProgress(console if console.is_terminal else None, counts)
        with queued(send) as (log, settle), progress:
            study = build_personalization(
                config,
                job.method,
                baseline,
                data,
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
        described = manifest(
            job, config, identity, data, study, draws, progress, store, figures, time.monotonic() - started
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
    return Outcome("done", claim.folder, figures)


def _tell_blanks(console: Console, counts: Mapping[str, CallCounts]) -> None:
    for role, count in counts.items():
        if count.blank:
            console.print(f"{role}: {count.blank} of the {count.made} answers made hold no text", style="bold red")


def _trackers(config: Mapping[str, Any], identity: str, method: str, folder: Path, console: Console) -> Trackers:
    trackers: list[Any] = [CsvTracker(folder)]
    if config["logger"]["_target_"] != "apm_lab.training.csv_tracker.CsvTracker":
        tracker = make(
            config["logger"],
            tuple(config["plugins"]),
            folder=folder,
            run_id=identity,
            name=folder.name,
            job_type=method,
            config=config,
        )
        trackers.append(tracker)
        if isinstance(tracker, WandbTracker) and tracker.notice:
            console.print(tracker.notice, soft_wrap=True, markup=False)
    return Trackers(trackers)


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
