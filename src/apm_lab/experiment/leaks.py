"""The two leak proofs for the method of a configuration: what `python -m apm_lab leaks` runs."""

from __future__ import annotations

from rich.console import Console

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError
from apm_lab.experiment.build import build_personalization, read_data
from apm_lab.experiment.build_method import baseline_node, roles_of
from apm_lab.experiment.job import Job
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.progress import StageProgress
from apm_lab.experiment.schema import completed
from apm_lab.experiment.study_groups import require_benchmark
from apm_lab.language.recall import CallCounts
from apm_lab.methods.protocols import Method, learns
from apm_lab.studies.leakage import leaks
from apm_lab.training.queued_log import queued

__all__ = ["prove_clean"]


def prove_clean(job: Job, console: Console) -> None:
    """Print that the job's method sees nothing hidden; ConfigError with every leak that was found.

    Builds the world at the configured size (what is generated stays in the store), fits and asks in the first mapping
    draw. A method that learns nothing, or is shown the truth by design, has nothing to prove.
    """
    config = completed(job.config)
    require_benchmark(config, "leaks")
    require_sound(config)
    counts = {role: CallCounts() for role in roles_of(config)}
    store = Store(**config["store"])
    try:
        with (
            queued(_to_nobody) as (log, _),
            StageProgress(console if console.is_terminal else None, counts) as progress,
        ):
            study = build_personalization(
                config,
                job.method,
                baseline_node(config, job.choices, job.folders),
                read_data(config),
                store,
                counts,
                log,
                checkpoint=None,
            )
            if not isinstance(study.method, Method) or not learns(study.method):
                raise ConfigError(f"method={job.method} reads no training view: there is nothing to prove")
            evaluation = study.build(progress)
            found = leaks(evaluation, job.method, study.method)
    finally:
        store.close()
    if found:
        raise ConfigError(f"method={job.method} leaks:\n" + "\n".join(f"  {leak}" for leak in found))
    users = len(evaluation.test.users)
    console.print(
        f"method={job.method}: no leak; {users} responses unchanged by overwriting, no hidden object reachable"
    )


def _to_nobody(_name: str, _figures: dict[str, float]) -> None:
    """Take training figures as a run's trackers would, so that views carry the same handle."""
