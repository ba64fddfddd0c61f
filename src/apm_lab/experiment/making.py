"""Objects from config nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apm_lab.experiment.plugin import made
from apm_lab.experiment.signature import read_signature

__all__ = ["make"]


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
