"""How a judge's follow and avoid ratings of the same texts fit together (APM App. C)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.preference import MIDPOINT

__all__ = ["correlation", "imbalance"]


def imbalance(plus: NDArray[np.float32], minus: NDArray[np.float32]) -> float | None:
    """Return the mean of |s+ + s- - 11| over texts (n,), 0 for a perfect judge; None without texts. APM Fig. 6."""
    return float(np.abs(plus + minus - 2 * MIDPOINT).mean()) if len(plus) else None


def correlation(plus: NDArray[np.float32], minus: NDArray[np.float32]) -> float | None:
    """Return Pearson(s+, s-) over texts (n,), -1 for a perfect judge; None without texts. APM Fig. 7.

    Ratings that never move say nothing of a text and count as 0.
    """
    if not len(plus):
        return None
    if plus.std() == 0 or minus.std() == 0:
        return 0.0
    return float(np.corrcoef(plus, minus)[0, 1])
