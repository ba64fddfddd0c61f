"""One run: from a composed config to a finished folder, or a clean skip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from apm_lab.experiment.claim import Claim, claim_run, finished_figures
from apm_lab.experiment.job import Job
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.run_folder import full_disk_named, new_folder
from apm_lab.experiment.schema import completed
from apm_lab.experiment.study_groups import study_name
from apm_lab.report.table import flags

__all__ = ["Outcome", "StudyRun", "execute"]


class StudyRun(Protocol):
    """One study's part of a run: its data are read when it is made, since they are part of the identity."""

    identity: str

    def compute(self, claim: Claim, console: Console, /) -> dict[str, float | None]:
        """Compute the run into the claim's folder, finish the claim, and return the headline figures."""
        ...


def study_run(job: Job, config: Mapping[str, Any]) -> StudyRun:
    """Return the run of the config's study."""
    if study_name(config) == "perspectives":
        from apm_lab.experiment.run_perspectives import PerspectivesRun

        return PerspectivesRun(job, config)
    from apm_lab.experiment.run_personalization import PersonalizationRun

    return PersonalizationRun(job, config)


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
    study = study_run(job, config)
    outputs = Path(config["outputs"])
    fresh = new_folder(outputs, str(job.choices.get("study")), study.identity, datetime.now())
    claim = claim_run(outputs / ".claims", study.identity, fresh)
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
        return Outcome("done", claim.folder, study.compute(claim, console))
