"""Two methods on the same users and draws: the interval of per-user differences, and sign flips over blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.maths.inference import Interval, mean_interval
from apm_lab.maths.seeding import stream
from apm_lab.maths.two_way import two_way

__all__ = ["Comparison", "SignFlip", "compare_methods", "sign_flip_test"]

Array = NDArray[np.float64]

_FEWEST_BLOCKS = 6  # with fewer, no two-sided p-value of a flip test can be below .05
_MOST_EXACT = 14
_FLIPS = 20_000
_ROUNDING = 1e-12  # of the largest possible sum: flips that tie with the observed signs count as at least as large


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The two-sided p-value of a sign-flip test, None where there are too few blocks, and the `note` to print by it."""

    p: float | None
    blocks: int
    flips: int
    note: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method A less method B: the interval decides `significant`; `sign_flip` stands beside it, given these users."""

    interval: Interval
    significant: bool
    sign_flip: SignFlip


def compare_methods(
    diff: ArrayLike, known: ArrayLike, blocks: ArrayLike, seed: int | str, level: float = 0.95
) -> Comparison:
    """Return how two methods compare, from per-user differences `diff` (D, U) of their figures, with mask and blocks.

    Significant: 0 lies outside `mean_interval`; never with fewer than two blocks. Whether a control arm voids the run
    is the caller's to add. Source: SPEC 1, "Intervals and tests".
    """
    interval = mean_interval(diff, known, blocks, level)
    significant = interval.blocks > 1 and interval.excludes(0.0)
    return Comparison(interval, significant, sign_flip_test(two_way(diff, known, blocks).block_means(), seed))


def sign_flip_test(means: ArrayLike, seed: int | str) -> SignFlip:
    """Return the share of sign patterns of the block means (B,) whose mean is at least as far from 0 as the observed.

    All 2^B patterns for B <= 14, else 20,000 from the seed's stream with the observed one counted in. It holds "given
    these users": users are shared by the blocks and are not resampled. For B < 6 there is no p-value.
    """
    x = np.asarray(means, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError(f"block means {x.shape}: expected (B,) finite numbers")
    B = len(x)
    if B < _FEWEST_BLOCKS:
        return SignFlip(None, B, 0, "too few draws")
    exact = B <= _MOST_EXACT
    signs = _all_signs(B) if exact else np.where(stream(seed, "sign flips").random((_FLIPS, B)) < 0.5, -1.0, 1.0)
    extreme = np.abs(signs @ x) >= abs(x.sum()) - _ROUNDING * np.abs(x).sum()
    p = extreme.mean() if exact else (1 + extreme.sum()) / (1 + len(signs))
    return SignFlip(float(p), B, len(signs), "given these users")


def _all_signs(B: int) -> Array:
    bits = (np.arange(2**B)[:, None] >> np.arange(B)) & 1
    return np.where(bits, -1.0, 1.0)
