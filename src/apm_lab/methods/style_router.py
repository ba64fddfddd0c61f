"""The Protocol through which the routing method meets a router: ModernBERT and n-grams are peers behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apm_lab.training.targets import Objective
from apm_lab.training.validation_set import Respond, ValidationSet

__all__ = ["Objective", "Respond", "SavedRouter", "StyleRouter", "ValidationSet"]


class StyleRouter(Protocol):
    """Something that learns which of S = 2M styles a user wants from the user's history alone (APM Sec. 5.2)."""

    def fit(
        self,
        histories: Sequence[tuple[str, ...]],
        targets: NDArray[np.generic],
        *,
        objective: Objective,
        styles: int,
        validation: ValidationSet | None,
        seed: int,
        log: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        """Train anew on U histories; weights of an earlier fit are dropped.

        `targets` are style labels (U,) for classification and ratings (U, S) for regression. `log` is called with
        named figures; the entry `step` is the optimiser step they belong to. The same arguments and seed give the
        same router, bit for bit. Raises DataError when shapes or labels don't fit.
        """
        ...

    def predict(self, histories: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Return scores (U, S): softmax probabilities after classification, predicted ratings after regression."""
        ...


@runtime_checkable
class SavedRouter(Protocol):
    """A router whose weights can be written. One that cuts long histories counts them as `truncated`."""

    def save(self, folder: Path, *, label: str | None = None) -> None:
        """Write the trained router into `folder`; `label` is the strategy whose labels it learnt."""
        ...
