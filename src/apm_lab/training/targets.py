"""What routers learn from: style labels or rating vectors, checked before anything is paid for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import DataError

__all__ = ["Objective", "checked_targets", "single_prompts"]

Objective = Literal["classification", "regression"]


def checked_targets(
    targets: NDArray[np.generic], users: int, objective: Objective, styles: int
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return `targets` as int64 labels (U,) or float64 ratings (U, S).

    Raises DataError when there are no users, the shape is another, a label is no style's number, or a rating is not
    finite (a user with a missing rating can't be regressed on: leave the user out).
    """
    values = np.asarray(targets)
    shape = (users,) if objective == "classification" else (users, styles)
    if users == 0:
        raise DataError("a router needs at least one history to train on")
    if values.shape != shape:
        raise DataError(f"{objective} targets have shape {values.shape}, expected {shape}")
    if objective == "regression":
        if not np.isfinite(values).all():
            raise DataError("regression targets must be finite; leave out users with a missing rating")
        return values.astype(np.float64)
    if not np.issubdtype(values.dtype, np.integer):
        raise DataError(f"labels are {values.dtype}, expected integers")
    if values.min() < 0 or values.max() >= styles:
        raise DataError(f"labels lie in {values.min()}..{values.max()}, expected 0..{styles - 1}")
    return values.astype(np.int64)


def single_prompts(histories: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Return each prompt as a history of its own, and the row of the history that it comes from.

    A history without a prompt stays as it is, so that no user is lost.
    """
    parts: list[list[tuple[str, ...]]] = [[(prompt,) for prompt in history] or [()] for history in histories]
    rows = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    return [part for each in parts for part in each], rows
