"""Code that a config names: its module is imported and its faults become one message that says where they arose."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from apm_lab.errors import ApmLabError, ConfigError, MissingPackageError, UnfetchedError, did_you_mean

__all__ = ["load_target", "made", "of_kind", "story"]

Kind = TypeVar("Kind")


def load_target(target: str) -> Callable[..., Any]:
    """Return the class or function with this dotted name.

    Raises:
        ConfigError: there is no such module or name, or the module raises, leaves or is no Python.
        MissingPackageError: the module needs a package that is not installed.

    """
    module, _, name = target.rpartition(".")
    try:
        holder = import_module(module)
        found: Callable[..., Any] | None = getattr(holder, name, None)  # some packages import only now
    except ModuleNotFoundError as fault:
        if fault.name and "." in fault.name and f"{module}.".startswith(f"{fault.name}."):
            raise ConfigError(f"_target_ {target}: there is no module {fault.name}") from fault
        raise MissingPackageError(f"_target_ {target} needs a package that is not installed: {fault}") from fault
    except (Exception, SystemExit) as fault:
        raise ConfigError(f"_target_ {target}: importing module {module} {story(fault)}") from fault
    if found is None:
        raise ConfigError(f"_target_ {target}: {module} has no '{name}'{did_you_mean(name, dir(holder))}")
    return found


def made(target: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 (whatever the config names)
    """Return what the class or function with this dotted name makes of `values`.

    Raises:
        ConfigError: it can't be loaded, doesn't take these values, or, where it isn't ours, raises.

    """
    maker = load_target(target)
    try:
        return maker(**values)
    except ApmLabError:
        raise
    except (Exception, SystemExit) as fault:
        if isinstance(fault, TypeError) and fault.__traceback__ is not None and fault.__traceback__.tb_next is None:
            raise ConfigError(f"_target_ {target}: {fault}") from fault  # the call itself, nothing in it
        if target.startswith("apm_lab."):
            raise
        raise ConfigError(f"_target_ {target}: making it {story(fault)}") from fault


def of_kind(thing: Kind, kind: type[Any], where: str) -> Kind:
    """Return `thing`; ConfigError where it lacks what the Protocol `kind` names. `where`: the config key it is from."""
    names = [name for name in {**vars(kind), **vars(kind).get("__annotations__", {})} if not name.startswith("_")]
    missing = [name for name in names if not _has(thing, name)]
    if missing:
        named = f"{type(thing).__module__}.{type(thing).__qualname__}"
        raise ConfigError(f"{where}: {named} is no {kind.__name__}: it has no {', '.join(missing)}")
    return thing


def _has(thing: object, name: str) -> bool:
    try:
        return hasattr(thing, name)
    except UnfetchedError:  # told when it is asked whether it is ready
        return True


def story(fault: BaseException) -> str:
    """Return what was raised, and where: "raised ValueError: no (toys.py, line 3); debug=true shows the traceback"."""
    if isinstance(fault, SyntaxError):
        said, place = fault.msg, f" ({fault.filename}, line {fault.lineno})" if fault.filename else ""
    else:
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        said, place = " ".join(str(fault).split()), f" ({frame.filename}, line {frame.lineno})"
    return f"raised {type(fault).__name__}{': ' * bool(said)}{said}{place}; debug=true shows the traceback"
