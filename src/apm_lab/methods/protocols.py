"""What a method is to the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from apm_lab.methods.views import TestView, TrainView
from apm_lab.records import Response

__all__ = ["AsksItself", "Checkpointed", "Counting", "Method", "learns", "least_users"]


@runtime_checkable
class Method(Protocol):
    """Learns from the training view, then answers every test user. Fitted anew for each mapping draw.

    A method that reads nothing of the training view says so by a class attribute `learns = False`: no training users
    are then generated for it.
    """

    def fit(self, view: TrainView) -> None:
        """Learn; whatever an earlier draw left behind must not show."""
        ...

    def respond(self, view: TestView) -> Sequence[Response]:
        """Return one response per test user, in order."""
        ...


def learns(method: object) -> bool:
    """Return whether the method reads the training view; it does unless it says otherwise."""
    return bool(getattr(method, "learns", True))


def least_users(method: object) -> int:
    """Return how many training users the method needs: 1 unless it says otherwise by an attribute `least_users`."""
    return int(getattr(method, "least_users", 1))


@runtime_checkable
class Checkpointed(Protocol):
    """A method that can write what it learnt."""

    def save(self, folder: Path) -> None:
        """Write what the last fit learnt into `folder` (safetensors and json), nothing where there is nothing."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A method that counts what it could not use since its last fit."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was `dropped` (training users, or pairs) and `truncated` (histories, or examples left out)."""
        ...


@runtime_checkable
class AsksItself(Protocol):
    """A method that asks language roles itself when it is fitted or responds: no plan can foresee those calls."""

    def most_calls(self, train: int, test: int, draws: int) -> Mapping[str, int]:
        """Return by role how many calls that can be at most, with so many users and mapping draws."""
        ...
