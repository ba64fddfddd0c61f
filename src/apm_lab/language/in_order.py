"""Streamed answers as a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from apm_lab.language.protocols import Answer

__all__ = ["in_order"]

Value = TypeVar("Value")


def in_order(groups: Iterable[Sequence[Answer[Value]]]) -> list[Value]:
    """Return the values of all answers in the order of their calls, each of which has one."""
    values = {answer.place: answer.value for group in groups for answer in group}
    return [values[place] for place in range(len(values))]
