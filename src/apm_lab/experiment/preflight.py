"""Everything that can be known to be wrong before anything is paid for, all faults at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apm_lab.data.pool import Pool
from apm_lab.data.steering import steering_prompts
from apm_lab.errors import ConfigError
from apm_lab.experiment.schema import faults
from apm_lab.experiment.size import oversized
from apm_lab.experiment.study_groups import PERSPECTIVES

__all__ = ["require_sound"]


def require_sound(config: Mapping[str, Any]) -> None:
    """Raise ConfigError naming every fault of a resolved config; return None when there is none."""
    found = faults(config)
    if not found:  # sums over values make sense only once every value has its type
        found = list(_contradictions(config))
    if found:
        head = "1 fault" if len(found) == 1 else f"{len(found)} faults"
        raise ConfigError(f"the configuration has {head}:\n" + "\n".join(f"  {fault}" for fault in found))


def _contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    for key, place in (("outputs", config["outputs"]), ("store.path", config["store"]["path"])):
        if not place.strip() or "\0" in place:
            yield f"{key}={place!r}: expected a path"
    yield from _budget_faults(config)
    if config["study"]["_target_"] == PERSPECTIVES:
        yield from _perspectives_contradictions(config)
    else:
        yield from _personalization_contradictions(config)


def _perspectives_contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    study, model = config["study"], config["reward_model"]
    for key in ("min_respondents", "format_questions"):
        if study[key] < 0:
            yield f"study.{key}={study[key]}: expected at least 0"
    if study["most_questions"] is not None and study["most_questions"] < 1:
        yield f"study.most_questions={study['most_questions']}: expected at least 1, or null for all"
    if not model["temperature"] > 0:
        yield f"reward_model.temperature={model['temperature']}: expected a number above 0"
    if any(limit is not None for limit in (config.get("budget") or {}).values()):
        yield "budget: study=perspectives asks models in this process only, which cost nothing; take it out"
    try:
        steering_prompts(config["steering"]["forms"], config["steering"]["traits"])
    except ConfigError as fault:
        yield str(fault)


def _personalization_contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    users = config["users"]
    for key, least in (("train", 0), ("test", 1), ("validation", 0), ("active", 1), ("turns", 1)):
        if users[key] < least:
            yield f"users.{key}={users[key]}: expected at least {least}"
    if config["callbacks"].get("alignment_questions", 1) < 1:
        yield f"callbacks.alignment_questions={config['callbacks']['alignment_questions']}: expected at least 1"
    if config["judge"]["retries"] < 0:
        yield f"judge.retries={config['judge']['retries']}: expected at least 0"
    yield from _price_faults(config)
    yield from _shared_folders(config)
    path = config["dataset"].get("path")
    if (
        config["dataset"]["_target_"] == "apm_lab.data.prompts.PromptFile"
        and path is not None
        and not Path(path).is_file()
    ):
        yield f"dataset.path={path}: there is no such file"
    try:
        pool = Pool.chosen(**{key: value for key, value in config["pool"].items() if key != "_target_"})
    except ConfigError as fault:
        yield str(fault)
        return
    N, M = len(pool.attributes), len(pool.principles)
    if users["active"] > N:
        yield f"users.active={users['active']}: a user can't have more active attributes than the pool has, N={N}"
    yield from _mapping_contradictions(config["mapping"], N, M)
    yield from oversized(config, N, M)


def _budget_faults(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in (config.get("budget") or {}).items():
        if value is not None and value < 0:
            yield f"budget.{key}={value}: expected at least 0, or null for no limit"


def _price_faults(config: Mapping[str, Any]) -> Iterator[str]:
    for name, price in config["prices"]["models"].items():
        numbers = isinstance(price, list) and all(type(each) in (int, float) and each >= 0 for each in price)
        if not numbers or len(price) != 2:
            yield f"prices.models.{name}={price!r}: expected USD per million tokens read and written, like [0.1, 0.4]"


def _shared_folders(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the batch folders that two roles name: each would write its calls over the other's."""
    owners: dict[str, str] = {}
    nodes = [(key, value) for key, value in config.items() if isinstance(value, Mapping)]
    for where, node in nodes:  # which grows by what stands inside
        nodes += [(f"{where}.{key}", value) for key, value in node.items() if isinstance(value, Mapping)]
        folder = str(node["folder"]) if node.get("_target_") == "apm_lab.language.batch.BatchModel" else ""
        if not folder.strip() or "\0" in folder:
            continue
        other = owners.setdefault(os.path.realpath(folder), where)
        if other != where:
            yield f"{where}.folder={folder} is the folder of {other} too; expected one for each role"


def _mapping_contradictions(mapping: Mapping[str, Any], N: int, M: int) -> Iterator[str]:
    if mapping["draws"] < 1:
        yield f"mapping.draws={mapping['draws']}: expected at least 1"
    signed = mapping["kind"]["_target_"] == "apm_lab.maths.mapping.SignedPermutation"
    if signed and N > M:
        yield (
            f"mapping=signed_permutation needs N <= M, the pool has N={N} attributes and M={M} principles; "
            "shorten pool.attributes, or take mapping=gaussian"
        )
    if mapping["design"] == "antithetic" and mapping["draws"] % 2:
        yield f"mapping.draws={mapping['draws']}: mapping.design=antithetic needs an even number"
    if mapping["design"] == "latin" and not signed:
        yield "mapping.design=latin is for mapping=signed_permutation; take independent or antithetic"
    if mapping["design"] == "latin" and mapping["draws"] % (2 * max(N, M)):
        yield f"mapping.draws={mapping['draws']}: mapping.design=latin needs a multiple of {2 * max(N, M)}"
