"""One audit of a reward model: built, computed, written, and told."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from apm_lab import __version__
from apm_lab.data.store import VERSION, Store
from apm_lab.data.survey import Survey
from apm_lab.experiment.build_perspectives import (
    audited_digest,
    audited_part,
    build_perspectives,
    read_audited,
    reward_model_of,
    reward_scoring,
)
from apm_lab.experiment.claim import Claim
from apm_lab.experiment.finished_audits import draw_audit
from apm_lab.experiment.identity import run_identity, source_digest
from apm_lab.experiment.job import Job
from apm_lab.experiment.manifest import package_versions, peak_mb
from apm_lab.experiment.progress import StageProgress
from apm_lab.experiment.run_folder import RunFolder
from apm_lab.experiment.run_trackers import run_trackers
from apm_lab.language.recall import CallCounts
from apm_lab.report.frame import Frame, rows_of
from apm_lab.report.perspectives.findings import headline, opinion_columns, report_frames, reward_columns
from apm_lab.report.perspectives.printed import print_audit
from apm_lab.studies.audited_part import audited_ids
from apm_lab.studies.perspectives import Findings
from apm_lab.training.trackers import Trackers

__all__ = ["PerspectivesRun"]

_ROLE = "reward_model"


class PerspectivesRun:
    """A run of study=perspectives by its sound, completed config."""

    def __init__(self, job: Job, config: Mapping[str, Any]) -> None:
        self._job, self._config = job, config
        whole = read_audited(config)
        self._whole = len(audited_ids(whole))
        self._data = audited_part(config, whole)
        self._digest = audited_digest(self._data)
        self.identity = run_identity(config, self._digest)

    def compute(self, claim: Claim, console: Console) -> dict[str, float | None]:
        """Compute the run into its folder, print its tables and return its headline figures."""
        started, config = time.monotonic(), self._config
        settings, model = reward_model_of(config)
        folder, store = RunFolder(claim.folder), Store(**config["store"])
        for name, text in self._job.hydra_files.items():
            folder.write_text(f".hydra/{name}", text)
        counts = {_ROLE: CallCounts()}
        trackers = run_trackers(config, self.identity, str(self._job.choices.get(_ROLE)), claim.folder, console)
        code = 1
        try:
            with StageProgress(console if console.is_terminal else None, counts) as progress:
                rate = reward_scoring(config, model, store, counts[_ROLE], progress)
                findings = build_perspectives(config, self._data, settings, rate, progress).run()
            frames, figures = report_frames(findings), headline(findings)
            _write(folder, findings, frames)
            _report(trackers, frames, figures)
            described = self._manifest(findings, frames, figures, store, counts[_ROLE], progress)
            described["store"]["key_headers"] = {_ROLE: list(rate.stored.key_header)}
            described |= {"wall_s": round(time.monotonic() - started, 3), "resumed": claim.resumed}
            folder.write_json("manifest.json", described)
            claim.finish()
            code = 0
        finally:
            trackers.finish(code)
            store.close()
        print_audit(console, described, frames)
        draw_audit(console, claim.folder, described)
        seconds = time.monotonic() - started
        console.print(f"results: {claim.folder} ({seconds:.0f} s, {peak_mb():.0f} MB)", soft_wrap=True, markup=False)
        return figures

    def _manifest(
        self,
        findings: Findings,
        frames: list[Frame],
        figures: Mapping[str, float | None],
        store: Store,
        count: CallCounts,
        progress: StageProgress,
    ) -> dict[str, Any]:
        choices = self._job.choices
        return {
            "study": "perspectives",
            "title": f"{choices.get(_ROLE)} on {choices.get('dataset')}{self._size(len(findings.questions))}",
            "identity": self.identity,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "figures": dict(figures),
            "reward_model": choices.get(_ROLE),
            "distance": findings.opinions.distance if findings.opinions is not None else None,
            # What two audits must share beside their data for their models to be held against each other.
            "setting": {key: self._config[key] for key in ("distance", "steering", "prompt_format", "study", "seed")},
            "temperature": self._config["reward_model"]["temperature"],
            "overrides": self._job.overrides,
            "seed": self._config["seed"],
            "versions": {"apm_lab": __version__, "python": platform.python_version(), **package_versions()},
            "source_digest": source_digest(),
            "data": {
                "digest": self._digest,
                "questions": len(findings.questions),
                "of": self._whole,
                "left_out": dict(findings.left_out),
                "groups": len(self._data.groups) if isinstance(self._data, Survey) else None,
            },
            "rewards": {"asked": findings.asked, "missing": findings.missing},
            "store": {"path": str(store.path), "version": VERSION},
            "calls": {_ROLE: {**asdict(count), "hits": count.hits, "misses": count.made}},
            "stages": progress.stages,
            "frames": {
                each.name: {
                    "title": each.title,
                    "shown": dict(each.shown),
                    "chosen": None if each.chosen is None else list(each.chosen),
                    "note": each.note,
                }
                for each in frames
            },
            "peak_mb": round(peak_mb(), 1),
        }

    def _size(self, questions: int) -> str:
        """Return what a title says where a part of the data was audited, and nothing where all of it was."""
        what = "questions" if isinstance(self._data, Survey) else "items"
        return f", {questions:,} of {self._whole:,} {what}" if questions < self._whole else ""


def _write(folder: RunFolder, findings: Findings, frames: list[Frame]) -> None:
    for each in frames:
        folder.write_parquet(f"{each.name}.parquet", each.columns)
    folder.write_parquet("rewards.parquet", reward_columns(findings))
    opinions = opinion_columns(findings)
    if opinions is not None:
        folder.write_parquet("opinions.parquet", opinions)


def _report(trackers: Trackers, frames: list[Frame], figures: Mapping[str, float | None]) -> None:
    trackers.summary({name: value for name, value in figures.items() if value is not None})
    for each in frames:
        trackers.table(each.name, list(each.columns), [list(row.values()) for row in rows_of(each)])
