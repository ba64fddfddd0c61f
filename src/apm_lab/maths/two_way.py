"""Values of D draws by U users, some unknown, and their means over both: what intervals and tests start from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["TwoWay", "standard_error", "two_way"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TwoWay:
    """Values (D, U), their mask (0 where unknown) and each draw's block (D,), numbered 0..B-1.

    A block is a draw, an antithetic pair or a whole Latin square. Every draw and every user here has a known value:
    users without one are left out, and blocks with such a draw are left out whole, `dropped` of them.
    """

    values: Array
    known: Mask
    block: NDArray[np.int64]
    dropped: int

    @property
    def users(self) -> int:
        """U."""
        return int(self.values.shape[1])

    @property
    def blocks(self) -> int:
        """B."""
        return len(set(self.block.tolist()))

    @property
    def draw_means(self) -> Array:
        """Each draw's mean over its known users, (D,)."""
        means: Array = self.values.sum(axis=1) / self.known.sum(axis=1)
        return means

    @property
    def user_means(self) -> Array:
        """Each user's mean over the draws known for them, (U,)."""
        means: Array = self.values.sum(axis=0) / self.known.sum(axis=0)
        return means

    @property
    def note(self) -> str:
        """What limits a conclusion from these values, empty if nothing does."""
        notes = {
            "no known value": self.users == 0,
            "a single user": self.users == 1,
            "for these draws": self.blocks == 1,
            f"{self.dropped} block(s) left out: a draw without a known value": self.dropped > 0,
        }
        return "; ".join(note for note, holds in notes.items() if holds)

    def block_means(self, per_draw: Array | None = None) -> Array:
        """Return each block's mean (B,) of its draws' figures (D,), by default of the draw means."""
        figures = self.draw_means if per_draw is None else per_draw
        return np.bincount(self.block, weights=figures) / np.bincount(self.block)


def two_way(values: ArrayLike, known: ArrayLike, blocks: ArrayLike) -> TwoWay:
    """Return the values (D, U) with mask `known` (D, U) and any block labels (D,), checked.

    ValueError for other shapes, a mask that isn't bool, blocks of unequal size or a known value that isn't finite.
    """
    x, mask, label = np.asarray(values, dtype=np.float64), np.asarray(known), np.asarray(blocks)
    if x.ndim != 2 or mask.shape != x.shape or label.shape != x.shape[:1]:
        raise ValueError(f"values {x.shape}, known {mask.shape}, blocks {label.shape}: expected (D, U), (D, U), (D,)")
    if mask.dtype != np.bool_:
        raise ValueError(f"known has dtype {mask.dtype}, expected bool")
    if not np.isfinite(x[mask]).all():
        raise ValueError("a value marked as known isn't finite")
    _, block, sizes = np.unique(label, return_inverse=True, return_counts=True)
    if len(set(sizes.tolist())) > 1:
        raise ValueError(f"blocks have {sorted(set(sizes.tolist()))} draws: expected whole blocks of one size")
    lacking = set(block[~mask.any(axis=1)].tolist())
    draws, users = ~np.isin(block, sorted(lacking)), mask.any(axis=0)
    _, renumbered = np.unique(block[draws], return_inverse=True)
    kept = np.ix_(draws, users)
    return TwoWay(np.where(mask, x, 0.0)[kept], mask[kept], renumbered, len(lacking))


def standard_error(means: Array) -> float:
    """Return the s.d. (ddof 1) of the means over the root of their number; NaN for fewer than two."""
    return float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan
