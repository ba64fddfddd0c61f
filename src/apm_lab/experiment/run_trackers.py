"""Where a run's figures go beside its own files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab.experiment.making import make
from apm_lab.training.trackers import CsvTracker, Trackers, WandbTracker

__all__ = ["run_trackers"]


def run_trackers(config: Mapping[str, Any], identity: str, job_type: str, folder: Path, console: Console) -> Trackers:
    """Return the run's trackers, a CSV always; what a user should know of the other one is printed."""
    trackers: list[Any] = [CsvTracker(folder)]
    if config["logger"]["_target_"] != "apm_lab.training.csv_tracker.CsvTracker":
        tracker = make(
            config["logger"],
            tuple(config["plugins"]),
            folder=folder,
            run_id=identity,
            name=folder.name,
            job_type=job_type,
            config=config,
        )
        trackers.append(tracker)
        if isinstance(tracker, WandbTracker) and tracker.notice:
            console.print(tracker.notice, soft_wrap=True, markup=False)
    return Trackers(trackers)
