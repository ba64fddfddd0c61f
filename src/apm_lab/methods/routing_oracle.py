"""The routing oracle: routes by the true preferences, the upper bound of routing (APM Sec. 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.preference import TIE_TOLERANCE
from apm_lab.maths.seeding import stream
from apm_lab.methods.views import PrivilegedView
from apm_lab.records import Response, Style

__all__ = ["RoutingOracle", "best_styles"]


class RoutingOracle:
    """Answers in the style j* = argmax_j |p_uj| with the sign of p_uj*; ties are broken at random by seed."""

    def respond_knowing(self, view: PrivilegedView) -> Sequence[Response]:
        """Return each user's true top style."""
        best = best_styles(view.preferences)
        order = stream(view.seed, "oracle ties").random(best.shape)
        chosen = np.where(best, order, -1.0).argmax(axis=1)
        return [Response(style=Style.of(index)) for index in chosen.tolist()]


def best_styles(preferences: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (U, S): which styles are a top style of users with these preferences (U, M); several when they tie."""
    size = np.abs(preferences)
    top = size >= size.max(axis=1, keepdims=True) - TIE_TOLERANCE
    best = np.zeros((len(preferences), 2 * preferences.shape[1]), dtype=bool)
    best[:, 0::2] = top & (preferences > 0)
    best[:, 1::2] = top & (preferences < 0)
    indifferent = size.max(axis=1) <= TIE_TOLERANCE  # a zero preference vector likes every style equally
    best[indifferent] = True
    return best
