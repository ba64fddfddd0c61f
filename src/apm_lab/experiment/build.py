"""From a sound config to finished objects, bottom-up: the only place that instantiates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apm_lab.data.pool import Pool, slug
from apm_lab.data.prompts import PromptSource, prompts_digest, split_prompts
from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.experiment.build_judge import asking_judge, told_how_to_ask
from apm_lab.experiment.build_method import ROLES, build_method, build_references, roles_of
from apm_lab.experiment.making import make
from apm_lab.experiment.plugin import of_kind
from apm_lab.experiment.settings import JudgeSettings, MappingSettings, PersonalizationSettings, PoolSettings
from apm_lab.language.protocols import Embedder, KnowsItsPool, Ready, ScoreModel, TextModel
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.simulated.reader import BayesReader
from apm_lab.language.stored_vectors import StoredVectors
from apm_lab.maths.mapping import MappingKind, check_mapping, draw_mappings
from apm_lab.maths.seeding import stream
from apm_lab.records import Prompt
from apm_lab.studies.evaluation import require_own_name
from apm_lab.studies.personalization import Personalization

__all__ = ["Data", "build_personalization", "read_data"]


@dataclass(frozen=True, slots=True)
class Data:
    """The source prompts and the digest of their texts."""

    prompts: Sequence[Prompt]
    digest: str


def read_data(config: Mapping[str, Any]) -> Data:
    """Return the data of a run; DataError where a source of the user's own gives anything but prompts."""
    source = of_kind(make(config["dataset"], tuple(config["plugins"])), PromptSource, "dataset")
    prompts = source.read()
    where = f"dataset {config['dataset']['_target_']}"
    if not isinstance(prompts, Sequence) or not all(isinstance(prompt, Prompt) for prompt in prompts):
        raise DataError(f"{where}: read() must return a sequence of apm_lab.records.Prompt")
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt.text, str) or not prompt.text.strip():
            raise DataError(f"{where}: prompt {place} is {prompt.text!r:.40}, expected a non-empty text")
    return Data(prompts, prompts_digest(prompts))


def build_personalization(
    config: Mapping[str, Any],
    name: str,
    baseline: Mapping[str, Any] | None,
    data: Data,
    store: Store,
    counts: Mapping[str, CallCounts],
    log: Callable[[str, dict[str, float]], None] | None,
    checkpoint: Callable[[int, str], Path] | None,
    *,
    guard: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    planning: bool = False,
) -> Personalization:
    """Return the personalization study that a sound, resolved config describes.

    `name` is the method's option, `baseline` the node of the router that is fitted beside its own. `guard` gives the
    models by role in which the study sees them. For `planning` they need not be usable on this machine.
    """
    plugins = tuple(config["plugins"])
    wanted: PoolSettings = make(config["pool"], plugins)
    pool = Pool.chosen(wanted.size, wanted.attributes, wanted.principles, wanted.placement)
    settings: PersonalizationSettings = make(config["study"], plugins)
    mapping: MappingSettings = make(config["mapping"], plugins)
    users, seed = make(config["users"], plugins), config["seed"]
    sizes = len(pool.principles), len(pool.attributes)
    check_mapping(of_kind(mapping.kind, MappingKind, "mapping.kind"), *sizes, stream(seed, "mapping check"))
    prompts = split_prompts(data.prompts, users.turns, seed)
    judge: JudgeSettings = make(told_how_to_ask(config["judge"], pool, plugins), plugins)
    models, encoders = _models(config, judge, plugins)
    _require_usable([*models.values(), *encoders.values()], pool, planning)
    answering = models["model"]
    models = guard(models)
    texts = {role: StoredTexts(model, store.texts, counts[role]) for role, model in models.items() if role != "judge"}
    vectors = {role: StoredVectors(encoder, store.vectors, counts[role]) for role, encoder in encoders.items()}
    asked = {role: texts[role] for role in texts if role not in ROLES} | vectors
    simulated = config["rewriter"]["_target_"].startswith("apm_lab.language.simulated.")
    method = build_method(config, config["router"], plugins, asked, answering)
    require_own_name(name, method)
    return Personalization(
        pool=pool,
        users=users,
        prompts=prompts,
        mappings=draw_mappings(mapping.kind, mapping.design, mapping.draws, *sizes, seed),
        normalise=mapping.normalise,
        rewriter=texts["rewriter"],
        generator=texts["generator"],
        model=texts["model"],
        judge=asking_judge(judge, models["judge"], pool, store, counts["judge"], guard),
        method=method,
        method_name=name,
        seed=seed,
        method_asks=asked,
        references=build_references(config, baseline, name, plugins, asked, answering),
        # With several active attributes the reader's one-attribute posterior would be no ceiling.
        reader=_reader(pool, prompts.train) if simulated and settings.bayes and users.active == 1 else None,
        allow_unhealthy=judge.allow_unhealthy,
        judged_validation=config["callbacks"]["judging"],
        log=log,
        checkpoint=checkpoint if config["callbacks"]["checkpoints"] else None,
    )


def _models(
    config: Mapping[str, Any], judge: JudgeSettings, plugins: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Embedder]]:
    """Return the models by role, and the encoder where the method takes one."""
    models: dict[str, Any] = {"judge": of_kind(judge.model, ScoreModel, "judge.model")}
    encoders: dict[str, Embedder] = {}
    for role in roles_of(config):
        if role == "encoder":
            encoders[role] = of_kind(make(config[role], plugins), Embedder, role)
        elif role != "judge":
            models[role] = of_kind(make(config[role], plugins), TextModel, role)
    return models, encoders


def _require_usable(models: Iterable[object], pool: Pool, planning: bool) -> None:
    """Raise ApmLabError where a backend lacks something on this machine, or does not know the pool."""
    for model in models:
        if isinstance(model, Ready) and not planning:
            model.ready()
        if isinstance(model, KnowsItsPool):
            model.require([slug(name) for name in pool.attributes], [slug(name) for name in pool.principles])


def _reader(pool: Pool, prompts: tuple[Prompt, ...]) -> BayesReader:
    return BayesReader([slug(name) for name in pool.attributes], [prompt.text for prompt in prompts])
