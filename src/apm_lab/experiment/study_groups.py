"""Which config groups a study reads: the others are null in its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apm_lab.errors import ConfigError

__all__ = ["GROUPS", "PERSPECTIVES", "groups_of_study", "require_benchmark", "study_name", "unread_groups"]

_PERSONALIZATION = "apm_lab.experiment.settings.PersonalizationSettings"
PERSPECTIVES = "apm_lab.experiment.settings.PerspectivesSettings"
_SHARED = ("study", "dataset", "trainer", "logger")
_OF_STUDY = {
    _PERSONALIZATION: (
        *_SHARED,
        *("model", "generator", "rewriter", "judge", "summariser", "encoder"),
        *("users", "pool", "mapping", "method", "router", "callbacks", "prices"),
    ),
    PERSPECTIVES: (*_SHARED, "reward_model", "distance", "steering", "prompt_format"),
}
GROUPS = tuple(dict.fromkeys(group for groups in _OF_STUDY.values() for group in groups))
"""All config groups that hold a node."""


def groups_of_study(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the groups that the config's study reads; of a study that is not known, the benchmark's."""
    return _OF_STUDY.get(_target(config), _OF_STUDY[_PERSONALIZATION])


def study_name(config: Mapping[str, Any]) -> str:
    """Return `personalization` or `perspectives`."""
    return "perspectives" if _target(config) == PERSPECTIVES else "personalization"


def unread_groups(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a fault for each group that is set although the study has none such: it would change nothing."""
    own = groups_of_study(config)
    for group in GROUPS:
        if group not in own and config.get(group) is not None:
            others = [name for name in own if name not in _SHARED]
            yield f"{group}: study={study_name(config)} has no such group; it has {', '.join(others)}"


def require_benchmark(config: Mapping[str, Any], verb: str) -> None:
    """Raise ConfigError where a verb about methods and users is given another study than the benchmark."""
    if study_name(config) != "personalization":
        raise ConfigError(f"{verb} is about study=personalization; study={study_name(config)} has no methods and users")


def _target(config: Mapping[str, Any]) -> str:
    study = config.get("study")
    return str(study.get("_target_")) if isinstance(study, Mapping) else ""
