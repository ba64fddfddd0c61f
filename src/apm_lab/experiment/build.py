"""From a sound config to finished objects, bottom-up: the only place that instantiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from apm_lab.data.pool import Pool, slug
from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.data.store import Store
from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.plugin import made, of_kind
from apm_lab.experiment.settings import JudgeSettings, MappingSettings, PersonalizationSettings, PoolSettings
from apm_lab.experiment.signature import read_signature
from apm_lab.judging.judge import Judge
from apm_lab.language.protocols import ScoreModel, TextModel
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
    """The source prompts and the digest of the file they come from."""

    prompts: list[Prompt]
    digest: str


def read_data(config: Mapping[str, Any]) -> Data:
    """Return the data of a run."""
    return Data(*read_prompts(config["dataset"]["path"], config["dataset"]["noncommercial"]))


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
    data: Data,
    store: Store,
    counts: Mapping[str, CallCounts],
    log: Callable[[str, dict[str, float]], None] | None,
) -> Personalization:
    """Return the personalization study that a sound, resolved config describes; `name` is its method's."""
    plugins = tuple(config["plugins"])
    wanted: PoolSettings = make(config["pool"], plugins)
    pool = Pool.chosen(wanted.size, wanted.attributes, wanted.principles, wanted.placement)
    settings: PersonalizationSettings = make(config["study"], plugins)
    mapping: MappingSettings = make(config["mapping"], plugins)
    users, seed = make(config["users"], plugins), config["seed"]
    sizes = len(pool.principles), len(pool.attributes)
    check_mapping(of_kind(mapping.kind, MappingKind, "mapping.kind"), *sizes, stream(seed, "mapping check"))
    prompts = split_prompts(data.prompts, users.turns, seed)
    texts = {
        role: StoredTexts(of_kind(make(config[role], plugins), TextModel, role), store.texts, counts[role])
        for role in ROLES
        if role != "judge"
    }
    judge: JudgeSettings = make(config["judge"], plugins)
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
        judge=Judge(
            of_kind(judge.model, ScoreModel, "judge.model"),
            store.scores,
            counts["judge"],
            [slug(principle) for principle in pool.principles],
            judge.direction,
            judge.retries,
        ),
        method=method,
        method_name=name,
        seed=seed,
        references=_references(config, settings, name, plugins),
        # With several active attributes the reader's one-attribute posterior would be no ceiling.
        reader=_reader(pool, prompts.train) if simulated and settings.bayes and users.active == 1 else None,
        allow_unhealthy=judge.allow_unhealthy,
        judged_validation=config["callbacks"]["judging"],
        log=log,
    )


def _method(config: Mapping[str, Any], router_node: Mapping[str, Any], plugins: tuple[str, ...]) -> Any:  # noqa: ANN401
    trainer = make(config["trainer"], plugins)
    parameters = read_signature(config["method"]["_target_"], plugins) or {}
    given: dict[str, object] = {"trainer": trainer}
    if "router" in parameters:
        given["router"] = of_kind(make(router_node, plugins, trainer=trainer), StyleRouter, "router")
    method = make(config["method"], plugins, **given)
    if not isinstance(method, Method) and type(method) is not RoutingOracle:
        raise ConfigError(f"method._target_={config['method']['_target_']} is no method: it has no fit and respond")
    return method


def _references(
    config: Mapping[str, Any], settings: PersonalizationSettings, name: str, plugins: tuple[str, ...]
) -> dict[str, Method]:
    """Return the same method with the simple baseline router, unless that is what is run anyway."""
    node = baseline_node(config)
    takes_router = "router" in (read_signature(config["method"]["_target_"], plugins) or {})
    if node is None or not takes_router or node["_target_"] == config["router"]["_target_"]:
        return {}
    return {f"{name}[{settings.baseline_router}]": _method(config, node, plugins)}


def baseline_node(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of the router option that `study.baseline_router` names, None where it is null."""
    baseline = config["study"]["baseline_router"]
    if baseline is None:
        return None
    options = {file.stem: file for file in (config_folder() / "router").glob("*.yaml")}
    if baseline not in options:
        raise ConfigError(f"study.baseline_router={baseline}: no such router{did_you_mean(baseline, options)}")
    node: dict[str, Any] = yaml.safe_load(options[baseline].read_text())
    return node


def _reader(pool: Pool, prompts: tuple[Prompt, ...]) -> BayesReader:
    return BayesReader([slug(name) for name in pool.attributes], [prompt.text for prompt in prompts])
