"""From a sound config to finished objects, bottom-up: the only place that instantiates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from apm_lab.data.pool import Pool, slug
from apm_lab.data.prompts import PromptSource, prompts_digest, split_prompts
from apm_lab.data.store import Store
from apm_lab.errors import ConfigError, DataError, did_you_mean
from apm_lab.experiment.option_files import file_fault
from apm_lab.experiment.plugin import made, of_kind
from apm_lab.experiment.schema import node_faults
from apm_lab.experiment.settings import JudgeSettings, MappingSettings, PersonalizationSettings, PoolSettings
from apm_lab.experiment.signature import read_signature
from apm_lab.judging.judge import Judge
from apm_lab.judging.pmi_judge import PmiJudge
from apm_lab.language.protocols import Embedder, KnowsItsPool, Ready, ScoreModel, TextModel
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.simulated.reader import BayesReader
from apm_lab.maths.mapping import MappingKind, check_mapping, draw_mappings
from apm_lab.maths.seeding import stream
from apm_lab.methods.protocols import Method
from apm_lab.methods.routing_oracle import RoutingOracle
from apm_lab.methods.style_router import StyleRouter
from apm_lab.records import Prompt
from apm_lab.studies.evaluation import require_own_name
from apm_lab.studies.personalization import Personalization

__all__ = ["ROLES", "Data", "baseline_node", "build_personalization", "make", "read_data"]

ROLES = ("rewriter", "generator", "model", "judge")


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


def make(node: Mapping[str, Any], plugins: tuple[str, ...], **given: object) -> Any:  # noqa: ANN401
    """Return the object that a config node describes, nested nodes first; of `given`, what its signature names goes in.

    Raises ConfigError, also where a class refuses its values.
    """
    target = node["_target_"]
    parameters = read_signature(target, plugins)  # refuses what may not be imported
    values = {key: value for key, value in node.items() if key != "_target_"}
    for key, value in values.items():
        if isinstance(value, Mapping) and "_target_" in value:
            values[key] = make(value, plugins)
    handed = {name: value for name, value in given.items() if parameters is not None and name in parameters}
    return made(target, {**handed, **values})


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
    judge: JudgeSettings = make(_told_how_to_ask(config["judge"], pool, plugins), plugins)
    models = {role: of_kind(make(config[role], plugins), TextModel, role) for role in ROLES if role != "judge"}
    models["judge"] = of_kind(judge.model, ScoreModel, "judge.model")
    _require_usable(models.values(), pool, planning)
    models = guard(models)
    texts = {role: StoredTexts(models[role], store.texts, counts[role]) for role in ROLES if role != "judge"}
    simulated = config["rewriter"]["_target_"].startswith("apm_lab.language.simulated.")
    method = _method(config, config["router"], plugins)
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
        judge=_asking(judge, models["judge"], pool, store, counts["judge"], guard),
        method=method,
        method_name=name,
        seed=seed,
        references=_references(config, baseline, name, plugins),
        # With several active attributes the reader's one-attribute posterior would be no ceiling.
        reader=_reader(pool, prompts.train) if simulated and settings.bayes and users.active == 1 else None,
        allow_unhealthy=judge.allow_unhealthy,
        judged_validation=config["callbacks"]["judging"],
        log=log,
        checkpoint=checkpoint if config["callbacks"]["checkpoints"] else None,
    )


def _asking(
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


def _require_usable(models: Iterable[object], pool: Pool, planning: bool) -> None:
    """Raise ApmLabError where a backend lacks something on this machine, or does not know the pool."""
    for model in models:
        if isinstance(model, Ready) and not planning:
            model.ready()
        if isinstance(model, KnowsItsPool):
            model.require([slug(name) for name in pool.attributes], [slug(name) for name in pool.principles])


def _told_how_to_ask(judge: Mapping[str, Any], pool: Pool, plugins: tuple[str, ...]) -> dict[str, Any]:
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


def _method(config: Mapping[str, Any], router_node: Mapping[str, Any], plugins: tuple[str, ...]) -> Any:  # noqa: ANN401
    trainer = make(config["trainer"], plugins)
    parameters = read_signature(config["method"]["_target_"], plugins) or {}
    given: dict[str, object] = {"trainer": trainer}
    if "router" in parameters:
        given["router"] = of_kind(make(router_node, plugins, trainer=trainer), StyleRouter, "router")
    if "encoder" in parameters:
        given["encoder"] = of_kind(make(config["encoder"], plugins), Embedder, "encoder")
        if isinstance(given["encoder"], Ready):
            given["encoder"].ready()
    method = make(config["method"], plugins, **given)
    if not isinstance(method, Method) and type(method) is not RoutingOracle:
        raise ConfigError(f"method._target_={config['method']['_target_']} is no method: it has no fit and respond")
    return method


def _references(
    config: Mapping[str, Any], baseline: Mapping[str, Any] | None, name: str, plugins: tuple[str, ...]
) -> dict[str, Method]:
    """Return the same method with the simple baseline router, where there is one and the method takes a router."""
    takes_router = "router" in (read_signature(config["method"]["_target_"], plugins) or {})
    if baseline is None or not takes_router:
        return {}
    return {f"{name}[{config['study']['baseline_router']}]": _method(config, baseline, plugins)}


def baseline_node(
    config: Mapping[str, Any], choices: Mapping[str, str], folders: Sequence[Path]
) -> dict[str, Any] | None:
    """Return the node of the router option that `study.baseline_router` names, None where it is null or run anyway.

    `choices` are the chosen options by group, `folders` the configuration folders, the first of which wins.
    """
    baseline = config["study"]["baseline_router"]
    if baseline is None or baseline == choices.get("router"):
        return None
    options = {
        str(file.relative_to(folder / "router").with_suffix("")): file
        for folder in reversed(folders)
        for file in (folder / "router").rglob("*.yaml")
    }
    if baseline not in options:
        raise ConfigError(f"study.baseline_router={baseline}: no such router{did_you_mean(baseline, options)}")
    broken = file_fault(options[baseline])
    if broken:
        raise ConfigError(f"study.baseline_router={baseline}: {broken}")
    node: dict[str, Any] = yaml.safe_load(options[baseline].read_text(encoding="utf-8"))
    found = list(node_faults(f"study.baseline_router={baseline}", node, tuple(config["plugins"])))
    if found:
        raise ConfigError("\n".join(found))
    return node


def _reader(pool: Pool, prompts: tuple[Prompt, ...]) -> BayesReader:
    return BayesReader([slug(name) for name in pool.attributes], [prompt.text for prompt in prompts])
