"""Typed configuration: every key and value is checked against the signature of what it configures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.experiment.signature import Parameter, plugin_fault, read_signature
from apm_lab.experiment.study_groups import GROUPS, PERSPECTIVES, groups_of_study, unread_groups

__all__ = ["INJECTED", "completed", "faults", "node_faults"]

INJECTED = (
    "router",
    "encoder",
    "summariser",
    "base",
    "probe",
    "trainer",
    "folder",
    "run_id",
    "config",
    "job_type",
    "name",
    "score",
    "template",
)
"""Parameters that `build` hands over itself when a config does not name them."""
_NAMES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
_LISTS = ("list", "tuple", "Sequence")
_ANYTHING = ("Any", "object")
_LARGEST = 2**63 - 1  # what the libraries below can count to; a seed is hashed and may be anything
_SETTINGS = "apm_lab.experiment.settings"
_READ = {
    "users": "apm_lab.studies.personalization.UserSettings",
    "judge": f"{_SETTINGS}.JudgeSettings",
    "study": f"{_SETTINGS}.PersonalizationSettings",
    "reward_model": f"{_SETTINGS}.RewardModelSettings",
    "distance": "apm_lab.studies.opinions.DistanceSettings",
    "steering": f"{_SETTINGS}.SteeringSettings",
    "prompt_format": "apm_lab.studies.question_format.FormatSettings",
    "pool": f"{_SETTINGS}.PoolSettings",
    "mapping": f"{_SETTINGS}.MappingSettings",
    "callbacks": f"{_SETTINGS}.CallbackSettings",
    "prices": f"{_SETTINGS}.PriceSettings",
}
"""Groups whose values are read by key before their class is made, and the class whose keys these are."""
_INSIDE = {"mapping": "kind", "judge": "model", "reward_model": "model"}


def faults(config: Mapping[str, Any]) -> list[str]:
    """Return every fault of a resolved config (plain containers), each naming key, value and what was expected."""
    plugins = _plugins(config)
    values = {key: value for key, value in config.items() if key not in GROUPS}
    found = list(_check_keys("", values, read_signature(f"{_SETTINGS}.RootSettings"), GROUPS))
    for name in ("store", "budget"):
        if isinstance(config.get(name), Mapping):
            signature = read_signature(f"{_SETTINGS}.{name.capitalize()}Settings")
            found += _check_keys(name, config[name], signature)
    found += [f"plugins: {fault}" for fault in map(plugin_fault, plugins) if fault]
    found += unread_groups(config)
    for group in groups_of_study(config):
        node = config.get(group)
        if not isinstance(node, Mapping):
            found.append(f"{group}: expected one of the group's options, found {node!r}")
        else:
            found += list(node_faults(group, node, plugins)) or _lacking(group, node, plugins)
    return found


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with the defaults of what its group nodes leave out, so that every key can be relied on.

    A default that is no literal is left to its class. What `faults` will refuse stays as it is.
    """
    names = _plugins(config)
    full = dict(config)
    for group in GROUPS:
        node = config.get(group)
        if isinstance(node, Mapping) and isinstance(node.get("_target_"), str):
            full[group] = {**_literal_defaults(node["_target_"], names), **node}
    return full


def _plugins(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the plug-in packages' names; what else stands there is a fault of its type."""
    given = config.get("plugins")
    return tuple(name for name in given if isinstance(name, str)) if isinstance(given, list) else ()


def _literal_defaults(target: str, plugins: tuple[str, ...]) -> dict[str, Any]:
    try:
        parameters = read_signature(target, plugins) or {}
    except ConfigError:
        return {}
    defaults = {}
    for name, parameter in parameters.items():
        if parameter.default is not None and name not in INJECTED:
            with suppress(ValueError):
                value = ast.literal_eval(parameter.default)
                defaults[name] = list(value) if isinstance(value, tuple) else value
    return defaults


def node_faults(where: str, node: Mapping[str, Any], plugins: tuple[str, ...]) -> Iterator[str]:
    """Yield the faults of one node and of those inside it, each naming `where` it stands."""
    target = node.get("_target_")
    if not isinstance(target, str) or "." not in target:
        yield f"{where}._target_: expected a dotted name, found {target!r}"
        return
    try:
        parameters = read_signature(target, plugins)
    except ConfigError as fault:
        yield f"{where}: {fault}"
        return
    values = {key: value for key, value in node.items() if key != "_target_"}
    yield from _check_keys(where, values, parameters)
    for key, value in values.items():
        if isinstance(value, Mapping) and "_target_" in value:
            yield from node_faults(f"{where}.{key}", value, plugins)


def _lacking(group: str, node: Mapping[str, Any], plugins: tuple[str, ...]) -> list[str]:
    """Return a fault where a node's class has not the keys that runs read from this group."""
    if group == "study" and node["_target_"] == PERSPECTIVES:
        return []
    needed = read_signature(_READ[group]) if group in _READ else None
    there = {**_literal_defaults(node["_target_"], plugins), **node}
    missing = [key for key in needed or () if key not in there]
    said = f"{group}._target_={node['_target_']}: has no {', '.join(missing)}; expected a class with the keys of"
    hint = f"; a {group} of your own goes into {group}.{_INSIDE[group]}" if group in _INSIDE else ""
    return [f"{said} {_READ[group].rpartition('.')[2]}{hint}"] if missing else []


def _check_keys(
    where: str, values: Mapping[str, Any], parameters: Mapping[str, Parameter] | None, others: tuple[str, ...] = ()
) -> Iterator[str]:
    if parameters is None:
        return
    prefix = f"{where}." if where else ""
    for key, value in values.items():
        if key not in parameters:
            yield f"{prefix}{key}: no such key{did_you_mean(key, (*parameters, *others))}"
        elif not _fits(value, parameters[key].annotation):
            yield f"{prefix}{key}={value!r}: expected {_kind(parameters[key])}"
        elif isinstance(value, int) and abs(value) > _LARGEST and prefix + key != "seed":
            yield f"{prefix}{key}={value}: expected at most {_LARGEST}"
    for name, parameter in parameters.items():
        if parameter.required and name not in values and name not in INJECTED:
            yield f"{prefix}{name}: missing; expected {_kind(parameter)}"


def _kind(parameter: Parameter) -> str:
    """Return the annotation as a user reads it: `Literal['a', 'b']` is "a or b"."""
    if parameter.annotation is None:
        return "a value"
    text = ast.unparse(parameter.annotation)
    options = re.sub(r"Literal\[([^\]]*)\]", lambda found: found[1].replace("'", "").replace(", ", " or "), text)
    return options.replace(" | None", " or null").replace(" | ", " or ")


def _fits(value: Any, annotation: ast.expr | None) -> bool:  # noqa: ANN401 (a config value may be anything)
    """Whether a plain config value can be what the annotation says; what this can't read is let pass."""
    if annotation is None or (isinstance(value, Mapping) and "_target_" in value):
        return True
    if isinstance(annotation, ast.BinOp):  # X | Y
        return _fits(value, annotation.left) or _fits(value, annotation.right)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):  # written in quotation marks
        return _fits(value, ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Constant):
        return value is None if annotation.value is None else value == annotation.value
    if isinstance(annotation, ast.Subscript):
        return _fits_generic(value, annotation)
    name = ast.unparse(annotation).rpartition(".")[2]
    if isinstance(value, float) and not isfinite(value):  # no option of ours means anything by them
        return False
    if name in _NAMES:
        # True is an int to Python, but users=true is a mistake.
        return isinstance(value, _NAMES[name]) and (name == "bool") == isinstance(value, bool)
    if name in _LISTS:
        return isinstance(value, list)
    return name in _ANYTHING or isinstance(value, Mapping)  # an object is a nested node


def _fits_generic(value: Any, annotation: ast.Subscript) -> bool:  # noqa: ANN401
    name = ast.unparse(annotation.value)
    inner = annotation.slice
    if name == "Literal":
        options = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return any(isinstance(option, ast.Constant) and value == option.value for option in options)
    if name in _LISTS:
        item = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
        return isinstance(value, list) and all(_fits(each, item) for each in value)
    return True
