"""What Hydra is handed: the user's flags and overrides, checked and put in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.experiment.option_files import added_folders, groups_of, require_readable

__all__ = ["forced", "forced_key"]

_MODES = {"-r": "--run", "-m": "--multirun", "-c": "--cfg", "-i": "--info", "-sc": "--shell-completion"}
_SHORT = {**_MODES, "-p": "--package", "-cp": "--config-path", "-cn": "--config-name", "-cd": "--config-dir"}
_BARE = ("--run", "--multirun", "--shell-completion", "--resolve", "--hydra-help")
_WITH_VALUE: dict[str, tuple[str, ...]] = {
    "--cfg": ("job", "hydra", "all"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "--package": (),
    "--config-path": (),
    "--config-name": (),
    "--config-dir": (),
}
_ALL = (*_BARE, *_WITH_VALUE, *_SHORT)


def forced(arguments: Sequence[str]) -> list[str]:
    """Return flags first, then the overrides, with `key=value` as `++key=value` where key is no config group.

    So Hydra composes whatever is written, and our own check (types, nearest names, all faults at once) judges it.

    Raises:
        ConfigError: a flag or an override that makes no sense, or a chosen option whose file is broken.

    """
    flags, rest = list[tuple[str, str | None]](), list[str]()
    words = iter(arguments)
    for word in words:
        if word.startswith("-"):
            flags.append(_flag(word, words))
        elif flags and flags[-1] == ("--info", None) and word in _WITH_VALUE["--info"]:  # its value may be left out
            flags[-1] = ("--info", word)
        else:
            rest.append(word)
    _require_agreeing(flags)
    shown = [f"{name}={value}" if value is not None else name for name, value in _settled(flags)]
    if ("--shell-completion", None) in flags:  # what follows is no override but install=bash and the like
        return [*shown, *rest]
    groups = groups_of(added_folders(value for name, value in flags if name == "--config-dir"))
    elsewhere = "hydra.searchpath" in " ".join(rest) or any(name == "--config-path" for name, _ in flags)
    overrides = [_override(word, groups, elsewhere) for word in rest]
    require_readable(overrides, groups)
    if ("--run", None) in flags:  # Hydra's flag alone gives way to a preset that is a grid
        overrides.append("hydra.mode=RUN")
    return [*shown, *overrides]


def forced_key(key: str, groups: Mapping[str, object]) -> str:
    """Return a key as `++key` where it is the plain one of a value, not of a config group."""
    ours = re.fullmatch(r"[A-Za-z_][\w.]*", key) and key not in groups and key.partition(".")[0] != "hydra"
    return f"++{key}" if ours else key


def _flag(word: str, words: Iterator[str]) -> tuple[str, str | None]:
    """Return the flag's long name and its value, taken from `words` where it doesn't stand in `word` itself."""
    given, equals, value = word.partition("=")
    name = _SHORT.get(given, given)
    if name not in (*_BARE, *_WITH_VALUE):
        raise ConfigError(f"no such flag {given}{did_you_mean(given, _ALL)}")
    if name in _BARE:
        if equals:
            raise ConfigError(f"{word}: {name} takes no value")
        return name, None
    if not equals:
        if name == "--info":
            return name, None
        value = next(words, "")
    choices = _WITH_VALUE[name]
    if not value or value.startswith("-"):
        raise ConfigError(f"{given} needs a value{did_you_mean('', choices) if choices else ''}")
    if choices and value not in choices:
        raise ConfigError(f"{given} {value}: no such value{did_you_mean(value, choices)}")
    return name, value


def _require_agreeing(flags: Sequence[tuple[str, str | None]]) -> None:
    names = {name for name, _ in flags}
    modes = sorted(names & set(_MODES.values()))
    if len(modes) > 1:
        raise ConfigError(f"{' and '.join(modes)} don't go together; give one of them")
    if "--resolve" in names and "--cfg" not in names:
        raise ConfigError("--resolve goes with --cfg: --cfg job --resolve")


def _settled(flags: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, str | None]]:
    """Yield the flags with a value for `--info`, which would take the first override for it."""
    for name, value in flags:
        yield name, "all" if name == "--info" and value is None else value


def _override(word: str, groups: Mapping[str, Mapping[str, Any]], elsewhere: bool) -> str:
    """Return the override for Hydra; `elsewhere`: there are options in folders that only Hydra knows."""
    key, given, value = word.partition("=")
    if not key or not (given or key.startswith("~")):
        raise ConfigError(f"'{word}' is no override; expected key=value")
    options = value.split(",") if key in groups else []
    in_grid = len(options) > 1 and not elsewhere
    for option in options:
        # What YAML reads as no word would be a fault inside Hydra; one in a grid would show when its job's turn comes.
        odd = re.fullmatch(r"null|true|false|[-+]?[\d.]+(e[-+]?\d+)?", option, re.IGNORECASE)
        if option not in groups[key] and (odd or (in_grid and re.fullmatch(r"[\w./-]+", option))):
            raise ConfigError(f"{key}={option}: no such option{did_you_mean(option, groups[key])}")
    return f"{forced_key(key, groups)}={value}" if given else word
