"""The method of a config, the language roles that it has beside the study's, and what is fitted beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.experiment.build_probe import opinion_probe
from apm_lab.experiment.making import make
from apm_lab.experiment.option_files import file_fault
from apm_lab.experiment.plugin import of_kind
from apm_lab.experiment.schema import node_faults
from apm_lab.experiment.signature import read_signature
from apm_lab.language.recall import StoredTexts
from apm_lab.language.stored_vectors import StoredVectors
from apm_lab.language.trainable import Trainable
from apm_lab.methods.protocols import Method
from apm_lab.methods.routing_oracle import RoutingOracle
from apm_lab.methods.style_router import StyleRouter

__all__ = ["OWN_ROLES", "ROLES", "baseline_node", "build_method", "build_references", "roles_of"]

ROLES = ("rewriter", "generator", "model", "judge")
"""The language roles of a study."""
OWN_ROLES = ("summariser", "encoder")
"""Those that a method has where its `__init__` takes them."""


def roles_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the language roles of a run: the study's, and those of `OWN_ROLES` that its method takes."""
    takes = read_signature(config["method"]["_target_"], tuple(config["plugins"])) or {}
    return *ROLES, *(role for role in OWN_ROLES if role in takes)


def build_method(
    config: Mapping[str, Any],
    router_node: Mapping[str, Any],
    plugins: tuple[str, ...],
    asked: Mapping[str, StoredTexts | StoredVectors],
    model: object,
) -> Any:  # noqa: ANN401 (a `Method`, or the oracle)
    """Return the method of a config with what it takes: a trainer, a router, the roles of its own (`asked`), `model`.

    ConfigError where it trains the model itself, and that is none that can be trained in this process.
    """
    trainer = make(config["trainer"], plugins)
    parameters = read_signature(config["method"]["_target_"], plugins) or {}
    probe = opinion_probe(config)
    given: dict[str, object] = {"trainer": trainer, "probe": probe, **asked}
    if "router" in parameters:
        given["router"] = of_kind(make(router_node, plugins, trainer=trainer, probe=probe), StyleRouter, "router")
    if "base" in parameters:
        given["base"] = _trainable(model, config["method"]["_target_"], config["model"]["_target_"])
    method = make(config["method"], plugins, **given)
    if not isinstance(method, Method) and type(method) is not RoutingOracle:
        raise ConfigError(f"method._target_={config['method']['_target_']} is no method: it has no fit and respond")
    return method


def build_references(
    config: Mapping[str, Any],
    baseline: Mapping[str, Any] | None,
    name: str,
    plugins: tuple[str, ...],
    asked: Mapping[str, StoredTexts | StoredVectors],
    model: object,
) -> dict[str, Method]:
    """Return the same method with the simple baseline router, where there is one and the method takes a router."""
    takes_router = "router" in (read_signature(config["method"]["_target_"], plugins) or {})
    if baseline is None or not takes_router:
        return {}
    return {f"{name}[{config['study']['baseline_router']}]": build_method(config, baseline, plugins, asked, model)}


def _trainable(model: Any, method: str, target: str) -> Trainable:  # noqa: ANN401
    if hasattr(type(model), "opened"):
        found: Trainable = model
        return found
    simulated = target.startswith("apm_lab.language.simulated.")
    why = "writes by rules and has nothing to train" if simulated else "runs outside of this process"
    raise ConfigError(
        f"method {method.rpartition('.')[2]} trains the model itself, and {target.rpartition('.')[2]} {why}; "
        "take model=simulated_lm, model=smollm2_135m, or a folder of your own (model.path_or_id=FOLDER)"
    )


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
