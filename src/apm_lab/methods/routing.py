"""Routing: a model reads the history and names the style to answer in (APM Sec. 4, Eq. 6; Sec. 5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import DataError
from apm_lab.maths.labels import class_labels, decode, mean_ratings, usable_users
from apm_lab.methods.style_router import Objective, SavedRouter, StyleRouter, ValidationSet
from apm_lab.methods.views import TestView, TrainView, ValidationView
from apm_lab.records import Response, Style

__all__ = ["Routing"]


class Routing:
    """Learns `history -> style` from ratings of the training candidates, and answers in the style it names.

    Args:
        router: what reads the history: ModernBERT, n-grams, or anything else that is a `StyleRouter`.
        label: how ratings become a target: `margin` (Eq. 6), `two_sided`, `one_sided` or `regression` (Sec. 5.2).

    """

    def __init__(
        self,
        router: StyleRouter,
        label: Literal["margin", "two_sided", "one_sided", "regression"] = "margin",
    ) -> None:
        self.router, self.label = router, label
        self._dropped = 0

    def fit(self, view: TrainView) -> None:
        """Train the router on all users whose ratings the label needs; the others are dropped and counted."""
        histories, targets, _, _, keep = self._examples(view.histories, view.ratings, view.known)
        self._dropped = int((~keep).sum())
        if not histories:
            raise DataError(f"no training user has the ratings that method.label={self.label} needs")
        self.router.fit(
            histories,
            targets,
            objective=self._objective,
            styles=2 * len(view.principles),
            validation=self._validation(view.validation),
            seed=view.seed,
            log=view.log,
        )

    def respond(self, view: TestView) -> Sequence[Response]:
        """Return the model's response in the predicted style for every test user."""
        scores = np.asarray(self.router.predict(view.histories), dtype=np.float64)
        expected = (len(view.histories), 2 * len(view.principles))
        if scores.shape != expected:
            raise DataError(
                f"router {type(self.router).__name__}: predict gave {scores.shape}, expected (U, S) {expected}"
            )
        if not np.isfinite(scores).all():
            raise DataError("the router diverged: its scores are not finite; a lower router.learning_rate may help")
        chosen = decode(self.label, scores)
        return [Response(style=Style.of(index)) for index in chosen.tolist()]

    def save(self, folder: Path) -> None:
        """Write the router of the last fit where it is one that can be saved; a linear one is refitted in a second."""
        if isinstance(self.router, SavedRouter):
            self.router.save(folder, label=self.label)

    @property
    def counts(self) -> Mapping[str, int]:
        """`dropped` training users, and `truncated` histories where the router cuts any."""
        return {"dropped": self._dropped, "truncated": int(getattr(self.router, "truncated", 0))}

    @property
    def _objective(self) -> Objective:
        return "regression" if self.label == "regression" else "classification"

    def _examples(
        self, histories: tuple[tuple[str, ...], ...], values: NDArray[np.float64], known: NDArray[np.bool_]
    ) -> tuple[list[tuple[str, ...]], NDArray[np.generic], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the usable users' histories, targets, mean ratings (U', S) and their mask, and who is usable (U,)."""
        ratings, rated = mean_ratings(values, known)
        keep = usable_users(self.label, rated)
        kept = [history for history, usable in zip(histories, keep.tolist(), strict=True) if usable]
        return kept, class_labels(self.label, ratings[keep]), ratings[keep], rated[keep], keep

    def _validation(self, view: ValidationView | None) -> ValidationSet | None:
        if view is None:
            return None
        histories, targets, ratings, rated, keep = self._examples(view.histories, view.ratings, view.known)
        if not histories:
            return None
        respond = None if view.judged is None else _Looked(view.judged[0][keep], view.judged[1][keep])
        return ValidationSet(histories, targets, ratings, respond, rated)


class _Looked:
    """Answers "how did style s do for held-out user v" from the judged table (V, S) that came with the view."""

    def __init__(self, values: NDArray[np.float64], known: NDArray[np.bool_]) -> None:
        self._values, self._known = values, known

    def __call__(
        self, users: NDArray[np.int64], styles: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        return self._values[users, styles], self._known[users, styles]
