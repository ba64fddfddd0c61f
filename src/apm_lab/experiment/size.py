"""Whether a run fits into this machine: the least memory its sizes take, computed before anything is made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["least_memory", "machine_memory", "oversized"]

_SCORE = 5  # bytes of a judge score (float32) and its mask
_WEIGHT = 8  # bytes of an entry of C or of a preference (float64)
_TEXT = 100  # the least that a prompt takes as a string of Python's
_OUTCOME = 34  # bytes per test user of one arm in one draw
_TRAINED = 16  # bytes of a parameter, its gradient and two moments (float32)
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_MOST = {"threads": 4096, "devices": 4096, "num_nodes": 65536}  # beyond these a trainer's libraries fail in odd ways


def oversized(config: Mapping[str, Any], N: int, M: int) -> Iterator[str]:
    """Yield what is too large in a config whose values have their types, with N attributes and M principles."""
    for key, most in _MOST.items():
        count = config["trainer"].get(key)
        if isinstance(count, int) and count > most:
            yield f"trainer.{key}={count}: expected at most {most}"
    parts, memory = least_memory(config, N, M), machine_memory()
    if memory is not None and sum(parts.values()) > memory:
        most_of_it = max(parts, key=lambda name: parts[name])
        yield (
            f"{most_of_it}: the run needs at least {_readable(sum(parts.values()))} of memory, "
            f"this machine has {_readable(memory)}; take less"
        )


def least_memory(config: Mapping[str, Any], N: int, M: int) -> dict[str, int]:
    """Return the bytes that a run holds at once at least, by the settings (with values) that they come from."""
    users, draws, router = config["users"], config["mapping"]["draws"], config["router"]
    styles = 2 * M
    per_train = users["turns"] * (styles * 2 * M * _SCORE + _TEXT)
    per_test = (styles + 2) * 2 * M * _SCORE + (users["turns"] + 1) * _TEXT
    people = users["train"] + users["validation"] + users["test"]
    parts = {
        _named("users", users, "train", "turns"): users["train"] * per_train,
        _named("users", users, "validation", "turns"): users["validation"] * per_train,
        _named("users", users, "test", "turns"): users["test"] * per_test,
        _named("mapping", config["mapping"], "draws"): draws * (M * (N + people) * _WEIGHT + users["test"] * _OUTCOME),
    }
    shape = [router.get(name) for name in ("layers", "hidden_size", "intermediate_size")]
    if router.get("pretrained") is None and all(isinstance(size, int) for size in shape):
        layers, width, inner = shape
        parameters = layers * width * (4 * width + 3 * inner)
        parts[_named("router", router, "layers", "hidden_size", "intermediate_size")] = parameters * _TRAINED
    return parts


def machine_memory() -> int | None:
    """Return the bytes of memory that this process may take at most, None where the system does not say."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in _CGROUPS:  # a container's limit; "max" for none
        with suppress(OSError, ValueError):
            found.append(int(Path(file).read_text()))
    return min(found, default=None)


def _named(group: str, values: Mapping[str, Any], *keys: str) -> str:
    return " ".join(f"{group}.{key}={values[key]}" for key in keys)


def _readable(size: int) -> str:
    power = min((size.bit_length() - 1) // 10, 6) if size else 0
    amount = size / 1024**power
    return f"{amount:{',.0f' if amount >= 100 else '.3g'}} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"
