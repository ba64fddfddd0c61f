"""The judge of a config: how its model is told to ask, and what its scale is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apm_lab.data.pool import Pool, slug
from apm_lab.data.store import Store
from apm_lab.errors import ConfigError
from apm_lab.experiment.settings import JudgeSettings
from apm_lab.experiment.signature import read_signature
from apm_lab.judging.judge import Judge
from apm_lab.judging.pmi_judge import PmiJudge
from apm_lab.language.protocols import ScoreModel
from apm_lab.language.recall import CallCounts

__all__ = ["asking_judge", "told_how_to_ask"]


def asking_judge(
    settings: JudgeSettings,
    model: ScoreModel,
    pool: Pool,
    store: Store,
    counts: CallCounts,
    guard: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> Judge:
    """Return the judge; what its scale is made of, where it needs that, is asked, counted and kept like its ratings."""
    principles, reference = [slug(principle) for principle in pool.principles], None
    if isinstance(settings.model, PmiJudge):
        differences = guard({"judge": settings.model.differences})["judge"]
        reference = Judge(differences, store.scores, counts, principles, retries=0)
    return Judge(model, store.scores, counts, principles, settings.direction, settings.retries, reference)


def told_how_to_ask(judge: Mapping[str, Any], pool: Pool, plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return the judge's node with `score`, `mode` and the pool's principles handed to its model, where it takes them.

    Raises ConfigError where the model has no choice and another one is wanted, or where two different ones are named.
    """
    model = judge["model"]
    takes = read_signature(model["_target_"], plugins) or {}
    handed: dict[str, Any] = {}
    for key, only in (("score", "sampled"), ("mode", "narrow")):
        if key in model and model[key] != judge[key]:
            raise ConfigError(
                f"judge.model.{key}={model[key]} and judge.{key}={judge[key]} contradict each other; "
                f"set judge.{key} and leave judge.model.{key} out"
            )
        if key in takes:
            handed[key] = judge[key]
        elif judge[key] != only and key not in model:
            raise ConfigError(f"judge.{key}={judge[key]}: {model['_target_']} takes no {key}; expected {only}")
    if "pool_principles" in takes:
        handed["pool_principles"] = list(pool.principles)
    return {**judge, "model": {**handed, **model}}
