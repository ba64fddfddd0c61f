"""The YAML files that options come from: which there are, and what is wrong with one that can't be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from apm_lab.errors import ConfigError
from apm_lab.experiment.config_folder import config_folder

__all__ = ["added_folders", "file_fault", "groups_of", "require_readable", "unreadable"]


def added_folders(names: Iterable[str | None]) -> list[Path]:
    """Return the folders of these names, which `--config-dir` gave; ConfigError where there is no such folder."""
    folders = [Path(name) for name in names if name]
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"--config-dir {folder}: there is no such folder")
    return folders


def groups_of(folders: Sequence[Path]) -> dict[str, dict[str, list[Path]]]:
    """Return the config groups of the shipped folder and of others, and each option's files."""
    groups: dict[str, dict[str, list[Path]]] = {}
    for group in (group for base in (config_folder(), *folders) for group in base.iterdir() if group.is_dir()):
        options = groups.setdefault(group.name, {})
        for file in filter(Path.is_file, group.rglob("*.yaml")):
            options.setdefault(str(file.relative_to(group).with_suffix("")), []).append(file)
    return groups


def require_readable(overrides: Sequence[str], groups: Mapping[str, Mapping[str, Sequence[Path]]]) -> None:
    """Raise ConfigError naming file and line where an option that the overrides choose has a file that is broken."""
    shipped = config_folder()
    found = [
        file_fault(file)
        for key, _, value in (override.lstrip("+").partition("=") for override in overrides)
        for option in re.split(r"[\s,\[\]]+", value)
        for file in groups.get(key.partition("@")[0], {}).get(option, ())
        if shipped not in file.parents
    ]
    if any(found):
        raise ConfigError("\n".join(fault for fault in dict.fromkeys(found) if fault))


def unreadable(arguments: Sequence[str], fault: Exception) -> str | None:
    """Return which file in the folder of `--config-dir=...` gave the fault, and what is wrong with it, None for none.

    `arguments`: Hydra's, as `forced` returns them.
    """
    import yaml

    if not isinstance(fault, yaml.YAMLError | UnicodeDecodeError | OSError):
        return None
    folders = [Path(word.partition("=")[2]) for word in arguments if word.startswith("--config-dir=")]
    files = (file for folder in folders for file in sorted(folder.rglob("*.yaml")) if file.stat().st_size)
    return next((found for found in map(file_fault, files) if found), None)


def file_fault(file: Path) -> str | None:
    """Return what is wrong with an option's file, as "FILE, line 3: ...", None where it holds keys and values."""
    import yaml
    from omegaconf import OmegaConf

    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        return f"{file}, line {line}: not UTF-8 text (byte 0x{fault.object[fault.start]:02x})"
    except OSError as fault:
        return f"{file} can't be read: {fault.strerror or fault}"
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return f"{file} is empty; expected keys and values"
        if not isinstance(root, yaml.MappingNode):
            return f"{file}, line {root.start_mark.line + 1}: expected keys and values, found a {root.id}"
        OmegaConf.load(file)
    except yaml.MarkedYAMLError as fault:
        return f"{file}, {' '.join(_story(fault))}"
    except yaml.reader.ReaderError as fault:
        return f"{file}, line {text[: fault.position].count(chr(10)) + 1}: {fault.reason} (U+{fault.character:04X})"
    except Exception as fault:  # whatever it is, Hydra could not read the file either
        return f"{file}: {_first_line(fault)}"
    return None


def _story(fault: Exception) -> Iterator[str]:
    """Yield "line 3:", what is wrong there and a hint, from one of YAML's errors with a place."""
    problem, context = getattr(fault, "problem", None), getattr(fault, "context", None)
    mark, began = getattr(fault, "problem_mark", None), getattr(fault, "context_mark", None)
    if began is not None and "end of stream" in (problem or ""):
        mark = began  # where the quotation mark is that is never closed
    yield "" if mark is None else f"line {mark.line + 1}:"
    yield from (part for part in (context, problem) if part)
    if "'\\t'" in (problem or ""):
        yield "(a tab; indent with spaces)"


def _first_line(fault: Exception) -> str:
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    return lines[0] if lines else type(fault).__name__
