"""Hydra's own callbacks are classes that a config names, too: what may not be imported is refused there as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apm_lab.errors import ConfigError
from apm_lab.experiment.signature import plugin_fault, require_allowed

__all__ = ["checked_callbacks"]


@contextmanager
def checked_callbacks() -> Iterator[None]:
    """While this lasts, Hydra makes callbacks of its own, of apm_lab and of the plug-ins alone; others: ConfigError.

    Hydra looks `instantiate` up when it makes them, and offers no other place to look at them first.
    """
    import hydra.utils

    make = hydra.utils.instantiate

    def checked(config: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (OmegaConf's own type)
        given = config._get_root().get("plugins")
        plugins = tuple(str(name) for name in given if plugin_fault(str(name)) is None) if given else ()
        target = config.get("_target_") if hasattr(config, "get") else None
        if not isinstance(target, str):
            raise ConfigError(f"hydra.callbacks: {config!r} is no callback; expected a node with a _target_")
        require_allowed(target, (*plugins, "hydra"))
        return make(config, *args, **kwargs)

    hydra.utils.instantiate = checked
    try:
        yield
    finally:
        hydra.utils.instantiate = make
