"""What a router may look at while it trains: held-out training users, never test users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Respond", "ValidationSet"]

Respond = Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.bool_]]]
"""`respond(indices, styles)` answers the held-out users `indices` (B,) in `styles` (B,) and asks the simulated user.

It returns the differences (B,) to their reference and the mask (B,) of those that are known.
"""


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """Held-out training users: V `histories`, `targets` as in `StyleRouter.fit`, and `ratings` (V, S).

    `known` (V, S) masks the ratings that exist (None: all). `respond`, where given, generates and judges.
    Raises ValueError when the lengths differ.
    """

    histories: Sequence[tuple[str, ...]]
    targets: NDArray[np.generic]
    ratings: NDArray[np.float64]
    respond: Respond | None = None
    known: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        users = len(self.histories)
        if len(self.targets) != users or self.ratings.ndim != 2 or len(self.ratings) != users:
            raise ValueError(
                f"{users} validation histories, targets {self.targets.shape}, ratings {self.ratings.shape}: "
                "expected (V,) or (V, S), and (V, S)"
            )
        if self.known is not None and self.known.shape != self.ratings.shape:
            raise ValueError(f"known has shape {self.known.shape}, the ratings {self.ratings.shape}")

    def differences(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return each style's rating minus the mean of the user's known ratings, (V, S), and the mask (V, S).

        The mean of a user's own 2M candidates stands in for the neutral response that held-out training users lack
        (SPEC 1, Methods). Missing entries hold 0 and are masked.
        """
        known = np.ones(self.ratings.shape, dtype=np.bool_) if self.known is None else self.known
        ratings = np.where(known, self.ratings, 0.0)
        mean = ratings.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
        return np.where(known, ratings - mean, 0.0), known
