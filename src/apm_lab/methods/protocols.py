"""What a method is to the study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from apm_lab.methods.views import TestView, TrainView
from apm_lab.records import Response

__all__ = ["Method"]


@runtime_checkable
class Method(Protocol):
    """Learns from the training view, then answers every test user. Fitted anew for each mapping draw."""

    def fit(self, view: TrainView) -> None:
        """Learn; whatever an earlier draw left behind must not show."""
        ...

    def respond(self, view: TestView) -> Sequence[Response]:
        """Return one response per test user, in order."""
        ...
