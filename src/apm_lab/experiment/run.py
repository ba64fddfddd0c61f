"""One run: from a composed config to a finished folder, or a clean skip."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab import __version__
from apm_lab.data.store import VERSION, Store
from apm_lab.experiment.build import ROLES, Data, baseline_node, build_personalization, make, read_data
from apm_lab.experiment.claim import Claim, claim_run, finished_figures
from apm_lab.experiment.identity import run_identity, source_digest
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.progress import StageProgress
from apm_lab.experiment.run_folder import DrawParts, RunFolder, full_disk_named, new_folder
from apm_lab.experiment.schema import completed
from apm_lab.language.recall import CallCounts
from apm_lab.report.personalization import Summary, results_columns, summarise, users_columns
from apm_lab.report.table import print_summary
from apm_lab.studies.personalization import Personalization, PersonalizationDraws
from apm_lab.training.trackers import Cell, CsvTracker, Trackers, WandbTracker

__all__ = ["Outcome", "execute"]

_PACKAGES = ("torch", "lightning", "transformers", "tokenizers", "scikit-learn", "numpy", "scipy", "hydra-core")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `done`, `skipped` (its results exist) or `busy` (another process has it), and its figures."""

    state: str
    folder: Path
    figures: dict[str, float]


def execute(
    config: Mapping[str, Any],
    overrides: list[str],
    hydra_files: Mapping[str, str],
    console: Console,
    method_name: str,
) -> Outcome:
    """Return the outcome of a run with this resolved config (plain containers).

    `hydra_files` are Hydra's own config files, kept with the results; `method_name` is the chosen option of `method`,
    what tables call it.
    """
    config = completed(config)
    require_sound(config)
    data = read_data(config)
    identity = run_identity(config, data.digest, baseline_node(config))
    outputs = Path(config["outputs"])
    study = config["study"]["_target_"].rpartition(".")[2].removesuffix("Settings").lower()
    claim = claim_run(outputs / ".claims", identity, new_folder(outputs, study, identity, datetime.now()))
    if claim.state == "done":
        console.print(
            f"skipped: this run is done already, its results are in {claim.folder}", soft_wrap=True, markup=False
        )
        figures = finished_figures(claim.folder) or {}
        if figures.get("test/void"):
            console.print("VOID: a control arm of that run is not zero; nothing in it counts", style="bold red")
        return Outcome("skipped", claim.folder, figures)
    if claim.state == "busy":
        console.print(f"skipped: {claim.owner} is computing this run in {claim.folder}", soft_wrap=True, markup=False)
        return Outcome("busy", claim.folder, {})
    if claim.resumed:
        console.print(f"continuing the run that was interrupted in {claim.folder}", soft_wrap=True, markup=False)
    with full_disk_named(), claim.held():
        return _compute(config, overrides, hydra_files, console, method_name, data, identity, claim)


def _compute(
    config: Mapping[str, Any],
    overrides: list[str],
    hydra_files: Mapping[str, str],
    console: Console,
    method_name: str,
    data: Data,
    identity: str,
    claim: Claim,
) -> Outcome:
    started = time.monotonic()
    folder, store = RunFolder(claim.folder), Store(config["store"]["path"])
    for name, text in hydra_files.items():
        folder.write_text(f".hydra/{name}", text)
    counts = {role: CallCounts() for role in ROLES}
    trackers = _trackers(config, identity, claim.folder, console)

    def log(name: str, figures: dict[str, float]) -> None:
        step = figures.get("step")
        named = {f"{name}/{key}": value for key, value in figures.items() if key != "step"}
        trackers.log(named, None if step is None else int(step))

    code = 1
    try:
        study = build_personalization(config, method_name, data, store, counts, log)
        with StageProgress(console) if console.is_terminal else nullcontext(StageProgress(None)) as progress:
            draws = study.run(progress, DrawParts(folder))
        summary = summarise(draws, config["seed"])
        _write_results(folder, draws, summary, config["seed"])
        figures = _headline(summary)
        _report(trackers, summary, figures)
        seconds = time.monotonic() - started
        folder.write_json(
            "manifest.json",
            _manifest(config, overrides, identity, data, study, counts, progress, figures, seconds, store),
        )
        claim.finish()
        code = 0
    finally:
        trackers.finish(code)
        store.close()
    label = f" label={config['method']['label']}" if "label" in config["method"] else ""
    title = f"{study.method_name}{label} on {config['model'].get('name', config['model']['_target_'])}"
    print_summary(console, title, summary, draws.health)
    console.print(f"results: {claim.folder} ({seconds:.0f} s, {_peak_mb():.0f} MB)", soft_wrap=True, markup=False)
    return Outcome("done", claim.folder, figures)


def _trackers(config: Mapping[str, Any], identity: str, folder: Path, console: Console) -> Trackers:
    trackers: list[Any] = [CsvTracker(folder)]
    if not config["logger"]["_target_"].endswith(".CsvTracker"):
        tracker = make(
            config["logger"],
            tuple(config["plugins"]),
            folder=folder,
            run_id=identity,
            name=folder.name,
            job_type=config["method"]["_target_"].split(".")[-2],
            config=config,
        )
        trackers.append(tracker)
        if isinstance(tracker, WandbTracker) and tracker.notice:
            console.print(tracker.notice, soft_wrap=True, markup=False)
    return Trackers(trackers)


def _write_results(folder: RunFolder, draws: PersonalizationDraws, summary: Summary, seed: int) -> None:
    folder.write_parquet("results.parquet", results_columns(draws, summary, seed))
    folder.write_parquet("users.parquet", users_columns(draws))


def _headline(summary: Summary) -> dict[str, float]:
    method = summary.arms[summary.method]
    figures = {
        "delta": method.spread("delta")[0],
        "delta_low": method.delta.low,
        "delta_high": method.delta.high,
        "wl": method.spread("win_loss")[0],
        "wl_low": method.win_loss.low,
        "wl_high": method.win_loss.high,
        "win_rate": method.win_rate.estimate,
        "accuracy": method.accuracy,
        "void": float(bool(summary.void)),
    }
    return {f"test/{name}": value for name, value in figures.items()}


def _report(trackers: Trackers, summary: Summary, figures: dict[str, float]) -> None:
    trackers.summary(dict(figures))
    rows: list[list[Cell]] = [
        [arm.name, *arm.spread("delta"), *arm.spread("win_loss"), arm.win_rate.estimate, arm.accuracy, arm.n]
        for arm in summary.arms.values()
    ]
    columns = ("method", "delta", "delta_sd", "wl", "wl_sd", "win_rate", "accuracy", "n")
    trackers.table("arms", columns, rows)


def _manifest(
    config: Mapping[str, Any],
    overrides: list[str],
    identity: str,
    data: Data,
    study: Personalization,
    counts: Mapping[str, CallCounts],
    progress: StageProgress,
    figures: dict[str, float],
    seconds: float,
    store: Store,
) -> dict[str, Any]:
    return {
        "identity": identity,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": figures,
        "method": study.method_name,
        "overrides": overrides,
        "seed": config["seed"],
        "versions": {"apm_lab": __version__, "python": platform.python_version(), **_versions()},
        "source_digest": source_digest(),
        "data": {"digest": data.digest, "prompts": len(data.prompts)},
        "store": {"path": str(store.path), "version": VERSION},
        # Tokens are counted where a backend reports them; simulated models have none.
        "calls": {role: asdict(count) for role, count in counts.items()},
        "stages_s": {name: round(value, 3) for name, value in progress.seconds.items()},
        "wall_s": round(seconds, 3),
        "peak_mb": round(_peak_mb(), 1),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
