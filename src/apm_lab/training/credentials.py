"""What must never reach a tracker or a log line, and whether W&B has what it needs to go online."""

from __future__ import annotations

import netrc
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from apm_lab.language.remote.secret import SECRET_NAME

__all__ = ["key_configured", "secret_values", "without_key", "without_secret_overrides", "without_secrets"]

_PAIR = re.compile(r"(?P<name>\w+)(?P<between>=|: )(?P<value>[^\s'\",]+)")


def without_secrets(config: Mapping[str, object]) -> dict[str, object]:
    """Return `config` with every entry whose name looks like a secret's replaced by `***`, at any depth.

    Entries that are None stay: they say that nothing was set.
    """

    def clean(value: object) -> object:
        if isinstance(value, Mapping):
            return without_secrets(value)
        return [clean(item) for item in value] if isinstance(value, (list, tuple)) else value

    return {
        str(name): "***" if SECRET_NAME.search(str(name)) and value is not None else clean(value)
        for name, value in config.items()
    }


def secret_values(config: Mapping[str, object]) -> list[str]:
    """Return the texts that stand under secrets' names in `config`, at any depth, the longest first."""
    found: set[str] = set()
    queue: list[tuple[str, object]] = list(config.items())
    while queue:
        name, value = queue.pop()
        if isinstance(value, Mapping):
            queue += [(str(key), each) for key, each in value.items()]
        elif isinstance(value, (list, tuple)):
            queue += [(name, each) for each in value]
        elif value not in (None, "") and not isinstance(value, bool) and SECRET_NAME.search(name):
            found.add(str(value))
    return sorted(found, key=len, reverse=True)


def without_secret_overrides(text: str) -> str:
    """Return a text in which every `key=value` and `key: value` whose key is named like a secret has lost its value."""
    return _PAIR.sub(
        lambda found: f"{found['name']}{found['between']}***" if SECRET_NAME.search(found["name"]) else found[0], text
    )


def without_key(text: str) -> str:
    """Return `text` with the value of WANDB_API_KEY, where it is set, replaced by `***`."""
    key = os.environ.get("WANDB_API_KEY")
    return text.replace(key, "***") if key else text


def key_configured() -> bool:
    """Say whether W&B would find a key for its server (WANDB_API_KEY or netrc); the network is not tried."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    files = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    for file in files:
        try:
            if netrc.netrc(Path(file).expanduser()).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False
