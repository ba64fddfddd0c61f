"""What each option of a config group is, in one line: read from its file and its class's source, nothing imported."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

from apm_lab.experiment.config_folder import config_folder

__all__ = ["in_colour", "option_lines"]

_NAME, _PLAIN = "\x1b[1;36m", "\x1b[0m"


def option_lines(group: str, coloured: bool = False) -> str:
    """Return a line per option of a group, its name and what it is; KeyError for a group that there isn't.

    The group may be named in the plural: `methods`, `studies`.
    """
    folder = _folder(group)
    files = {file.relative_to(folder).with_suffix("").as_posix(): file for file in sorted(folder.rglob("*.yaml"))}
    width = max(map(len, files))
    before, after = (_NAME, _PLAIN) if coloured else ("", "")
    lines = (f"  {before}{name:{width}s}{after}  {_told(file)}".rstrip() for name, file in files.items())
    return "".join(f"{line}\n" for line in lines)


def in_colour() -> bool:
    """Return whether standard output is a terminal that shows colours, and nobody has asked for none (NO_COLOR)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _folder(group: str) -> Path:
    folders = {folder.name: folder for folder in config_folder().iterdir() if any(folder.glob("**/*.yaml"))}
    for name in (group, group.removesuffix("s"), re.sub("ies$", "y", group)):
        if name in folders:
            return folders[name]
    raise KeyError(group)


def _told(file: Path) -> str:
    """Return the first comment of an option's file, else the first line of its class's docstring."""
    text = file.read_text(encoding="utf-8")
    comments = re.findall(r"^# (?!@package)(.+)$", text, re.MULTILINE)
    if comments:
        return str(comments[0]).strip()
    targets = re.findall(r"\b_target_: ([\w.]+)", text)
    # What stands inside of settings is the thing itself: a kind of mapping, a judge's model.
    inner = [target for target in targets if not target.endswith("Settings")]
    return _docstring([*inner, *targets][0]) if targets else ""


def _docstring(target: str) -> str:
    """Return the first line of the docstring of a class of ours, nothing where it is not found."""
    module, _, name = target.rpartition(".")
    package = Path(__file__).resolve().parents[1]
    file = package.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return ""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""
