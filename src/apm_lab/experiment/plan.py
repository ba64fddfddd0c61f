"""`plan=true`: what a command would ask, take and cost, without a model call and with no weights loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab.data.store import Store
from apm_lab.errors import UnfetchedError
from apm_lab.experiment.build import build_personalization, read_data
from apm_lab.experiment.build_method import ROLES, baseline_node, roles_of
from apm_lab.experiment.claim import finished_folder
from apm_lab.experiment.identity import run_identity
from apm_lab.experiment.job import Job
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.schema import completed
from apm_lab.experiment.study_groups import study_name
from apm_lab.language.bill import Line, bill
from apm_lab.language.foresight import Outlook
from apm_lab.language.recall import CallCounts
from apm_lab.methods.protocols import AsksItself
from apm_lab.report.plan import print_plan
from apm_lab.report.table import terminal
from apm_lab.studies.outlook import look_ahead

__all__ = ["Plan", "begin", "conclude", "plan_job"]


class Plan:
    """The plan of one command: of all jobs of a multirun together, where what several of them ask counts once."""

    def __init__(self) -> None:
        self.runs = 0
        self._outlook = Outlook()
        self._done: list[str] = []
        self._prices: dict[str, list[float]] = {}
        self._notes: list[str] = []
        self._audits: list[Line] = []

    def add(self, job: Job) -> None:
        """Count what a job would ask; ApmLabError for whatever is wrong with it."""
        config = completed(job.config)
        require_sound(config)
        self.runs += 1
        if study_name(config) == "perspectives":
            self._add_audit(config)
            return
        data, baseline = read_data(config), baseline_node(config, job.choices, job.folders)
        self._prices |= config["prices"]["models"]
        if self._is_done(config, run_identity(config, data.digest, baseline)):
            return
        counts = {role: CallCounts() for role in roles_of(config)}
        store = Store(**config["store"], reading=True)
        study = build_personalization(
            config, job.method, baseline, data, store, counts, None, None, guard=self._named, planning=True
        )
        look_ahead(study, self._outlook, _silent)
        if isinstance(study.method, AsksItself):
            most = study.method.most_calls(study.users.train, study.users.test, len(study.mappings.matrices))
            told = ", ".join(f"{role} {count:,} calls" for role, count in most.items())
            self._notes.append(
                f"method={job.method}: what it asks for itself comes on top, at most: {told}; and ratings"
            )
        elif not config["method"]["_target_"].startswith("apm_lab."):
            self._notes.append(f"method={job.method}: what it asks for itself comes on top")

    def _add_audit(self, config: Mapping[str, Any]) -> None:
        from apm_lab.experiment.build_perspectives import audited_digest, audited_part, read_audited
        from apm_lab.experiment.plan_audit import audit_line

        data = audited_part(config, read_audited(config))
        if not self._is_done(config, run_identity(config, audited_digest(data))):
            self._audits.append(audit_line(config, data))

    def _is_done(self, config: Mapping[str, Any], identity: str) -> bool:
        """Return whether the run's results exist, and note where."""
        done = finished_folder(Path(config["outputs"]) / ".claims", identity)
        if done is not None:
            self._done.append(str(done))
        return done is not None

    def _named(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Return the models by role; one whose weights are not here yet has its name for an identity."""
        named = {}
        for role, model in models.items():
            try:
                _ = model.identity
                named[role] = model
            except UnfetchedError as fault:
                named[role] = _Unfetched(model, fault.name)
                self._notes.append(f"{fault.name} is not on this machine: what the store may hold of it is not counted")
        return named

    def print(self, console: Console) -> None:
        """Print the bill."""
        lines = [bill(forecast, self._prices) for forecast in self._outlook.forecasts.values()]
        order = {role: place for place, role in enumerate(ROLES)}
        lines = [*sorted(lines, key=lambda line: order[line.role]), *self._audits]
        print_plan(console, self.runs, self._done, lines)
        for note in dict.fromkeys(self._notes):
            console.print(note, soft_wrap=True, markup=False)


class _Unfetched:
    """In place of a model that is not on this machine: its files' digest, which its identity needs, is not known."""

    def __init__(self, model: Any, name: str) -> None:  # noqa: ANN401 (of texts or of scores)
        self._model, self.identity = model, f"{name}@not fetched"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever else the model says of itself)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_model"], name)


_under_way: list[Plan] = []


def begin() -> None:
    """Forget an earlier command of this process."""
    _under_way.clear()


def plan_job(job: Job) -> None:
    """Add a job to the plan of this command."""
    if not _under_way:
        _under_way.append(Plan())
    _under_way[0].add(job)


def conclude() -> bool:
    """Print the plan of this command; return whether there was one."""
    if not _under_way:
        return False
    plan = _under_way.pop()
    if plan.runs:
        plan.print(terminal())
    return True


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""
