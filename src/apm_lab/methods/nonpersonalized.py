"""The non-personalized baseline: a second, independent neutral response (APM Table 1's first rows)."""

from __future__ import annotations

from collections.abc import Sequence

from apm_lab.methods.views import TestView, TrainView
from apm_lab.records import Response

__all__ = ["NonPersonalized"]


class NonPersonalized:
    """Answers everybody neutrally. By APM Theorems 1 and 2 its Delta is zero and its win rate one half."""

    learns = False

    def fit(self, view: TrainView) -> None:
        """Learn nothing."""

    def respond(self, view: TestView) -> Sequence[Response]:
        """Return the twin of the neutral response for everybody."""
        return [Response(sample=1)] * len(view.histories)
