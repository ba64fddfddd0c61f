"""What a `_target_` accepts, read from its source with `ast`: nothing is imported, so nothing can run."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from apm_lab.errors import ConfigError, did_you_mean

__all__ = ["LIBRARIES", "Parameter", "plugin_fault", "read_signature", "require_allowed"]

LIBRARIES = ("apm_lab", "torch", "lightning", "torchmetrics", "transformers", "sklearn", "hydra_plugins")
"""Packages that a `_target_` may name beside the plug-in packages of the config."""
_OURS = ("apm_lab.experiment.settings.", "apm_lab.experiment.sweep.SweepSummary")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its annotation as an expression (None: not annotated) and its default's (None: must be given)."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is None


@cache
def read_signature(target: str, plugins: tuple[str, ...] = ()) -> dict[str, Parameter] | None:
    """Return the parameters of a class's `__init__`, a dataclass's fields or a function, by name.

    None when it takes any keyword, or stands in a library that is not ours to read.

    Raises:
        ConfigError: a package that may not be named, that is not installed, or that has no such name; three messages.

    """
    module_name, _, name = target.rpartition(".")
    package = target.partition(".")[0]
    require_allowed(target, plugins)
    if package in LIBRARIES[1:]:
        return None
    file = _source_file(module_name, target)
    tree = _parsed(file, target)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _parameters(node, skip=0)
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _class_parameters(node)
        if isinstance(node, ast.ImportFrom):
            origin = _origin(node, name, module_name, file)
            if origin is not None and origin != target:
                return _followed(origin, target, plugins)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    raise ConfigError(
        f"_target_ {target}: module {module_name} has no class or function '{name}'{did_you_mean(name, names)}"
    )


def require_allowed(target: str, plugins: tuple[str, ...]) -> None:
    """Raise ConfigError where a `_target_` is no dotted name, or its package is neither a library nor a plug-in."""
    package = target.partition(".")[0]
    if not all(part.isidentifier() for part in target.split(".")) or "." not in target:
        raise ConfigError(f"_target_ {target!r} is no dotted name; expected package.module.Class")
    if package not in (*LIBRARIES, *plugins):
        advice = "" if package in sys.stdlib_module_names else f"; allow it with plugins=[{package}]"
        raise ConfigError(f"_target_ {target} is refused: package '{package}' is neither apm_lab nor a plug-in{advice}")
    if package in (*LIBRARIES, "hydra") and not _is_plug(target):
        # Functions of these could be asked to run or unpickle anything: torch.load, our own plugin.made.
        raise ConfigError(
            f"_target_ {target} is refused: of {package} only classes that a config is made of may be named"
        )


def _is_plug(target: str) -> bool:
    """Whether a name of a library's is a class, by its capital, and stands where a config may look for one."""
    if target.startswith("apm_lab.experiment."):
        return target.startswith(_OURS)
    if target.startswith("hydra."):
        return target.startswith("hydra.experimental.") and target.rpartition(".")[2][:1].isupper()
    return target.rpartition(".")[2].lstrip("_")[:1].isupper()


def _parsed(file: Path, target: str) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), filename=str(file))
    except SyntaxError as fault:
        place = f", line {fault.lineno}" if fault.lineno else ""
        raise ConfigError(f"_target_ {target}: {file}{place}: {fault.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as fault:
        raise ConfigError(f"_target_ {target}: {file} can't be read as Python: {fault}") from None


def _followed(origin: str, target: str, plugins: tuple[str, ...]) -> dict[str, Parameter] | None:
    try:
        return read_signature(origin, plugins)
    except RecursionError:
        raise ConfigError(f"_target_ {target}: the modules that import it from one another go in a circle") from None


def _origin(node: ast.ImportFrom, name: str, module: str, file: Path) -> str | None:
    """Return where `name` comes from when this line of the module imports it, else None."""
    for alias in node.names:
        if name == (alias.asname or alias.name):
            holders = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
            above = holders[: len(holders) - node.level + 1] if node.level else []
            return ".".join([*above, *([node.module] if node.module else []), alias.name])
    return None


def plugin_fault(package: str) -> str | None:
    """Return why `plugins` can't hold this name, None where a plug-in package or module of this name lies there."""
    if not package.isidentifier() or package.startswith("__"):
        return f"{package!r} is no package's name; expected one word, like [my_methods]"
    if package in LIBRARIES:
        return f"'{package}' may be named anyway; leave it out"
    if package in sys.stdlib_module_names:
        return f"'{package}' is a part of Python, no plug-in; give a module of your own another name"
    return None if installed(package) else f"package '{package}' is not installed here"


def installed(package: str) -> bool:
    """Whether a package or a single-file module of this name lies on the import path."""
    places = [Path(entry or ".", package) for entry in (*sys.path, str(Path(__file__).resolve().parents[2]))]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)


def _source_file(module: str, target: str) -> Path:
    """Return the module's file, found on the import path without importing even its package."""
    parts = module.split(".")
    for entry in sys.path:
        base = Path(entry or ".").joinpath(*parts)
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                return file
    root = Path(__file__).resolve().parents[2]  # an editable install is not on the path as a folder
    file = root.joinpath(*parts).with_suffix(".py")
    if file.is_file():
        return file
    if installed(parts[0]):
        raise ConfigError(f"_target_ {target}: package '{parts[0]}' has no module '{module}'")
    raise ConfigError(f"_target_ {target}: package '{parts[0]}' is not installed here")


def _class_parameters(node: ast.ClassDef) -> dict[str, Parameter] | None:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return _parameters(item, skip=1)
    if not node.bases and any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
        return {
            field.target.id: Parameter(field.target.id, field.annotation, field.value)
            for field in fields
            if isinstance(field.target, ast.Name)
        }
    return {} if not node.bases else None  # what an inherited __init__ takes is not written here


def _parameters(node: ast.FunctionDef, skip: int) -> dict[str, Parameter] | None:
    if node.args.kwarg is not None:
        return None
    positional = [*node.args.posonlyargs, *node.args.args][skip:]
    defaults = [None] * (len(positional) - len(node.args.defaults)) + list(node.args.defaults)
    parameters = {
        arg.arg: Parameter(arg.arg, arg.annotation, default)
        for arg, default in zip(positional, defaults[-len(positional) :] if positional else [], strict=True)
    }
    for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        parameters[arg.arg] = Parameter(arg.arg, arg.annotation, default)
    return parameters
