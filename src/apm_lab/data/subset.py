"""A part of a data set's items, drawn at random and always the same for one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from apm_lab.errors import ConfigError
from apm_lab.maths.seeding import stream

__all__ = ["random_subset"]

T = TypeVar("T")


def random_subset(items: Sequence[T], count: int | None, seed: int, name: str) -> list[T]:
    """Return `count` of the items in their own order, drawn by the stream ("items", name); all where None or fewer.

    ConfigError where `count` is below 1.
    """
    if count is not None and count < 1:
        raise ConfigError(f"dataset.items={count}: expected at least 1, or null for all")
    if count is None or count >= len(items):
        return list(items)
    drawn = stream(seed, "items", name).choice(len(items), size=count, replace=False)
    return [items[place] for place in sorted(drawn.tolist())]
