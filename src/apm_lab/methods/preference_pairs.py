"""Contrastive pairs: the answers to a history prompt that its user rates best and worst (APM Sec. 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.preference import TIE_TOLERANCE
from apm_lab.records import Style

__all__ = ["PreferencePair", "preference_pairs"]


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """A training user's best (`chosen`) and worst (`rejected`) candidate for one history prompt, and their ratings.

    The texts are `view.candidates.generate([(user, turn, chosen, 0), (user, turn, rejected, 0)])`.
    """

    user: int
    turn: int
    chosen: Style
    rejected: Style
    chosen_rating: float
    rejected_rating: float


def preference_pairs(ratings: NDArray[np.float64], known: NDArray[np.bool_]) -> tuple[list[PreferencePair], int]:
    """Return the pairs of ratings (U, T, S) with their mask, by user and turn, and how many prompts give none.

    Ties for best and for worst go to the lowest style. A prompt gives no pair where its best and worst rating are
    equal, or fewer than two are known.
    """
    best = np.where(known, ratings, -np.inf).max(axis=2, keepdims=True)
    worst = np.where(known, ratings, np.inf).min(axis=2, keepdims=True)
    chosen = (known & (ratings >= best - TIE_TOLERANCE)).argmax(axis=2)
    rejected = (known & (ratings <= worst + TIE_TOLERANCE)).argmax(axis=2)
    usable = (best - worst)[:, :, 0] > TIE_TOLERANCE  # never with one known rating, nor with none: -inf - inf
    pairs = [
        PreferencePair(
            user,
            turn,
            Style.of(chosen[user, turn]),
            Style.of(rejected[user, turn]),
            float(ratings[user, turn, chosen[user, turn]]),
            float(ratings[user, turn, rejected[user, turn]]),
        )
        for user, turn in np.argwhere(usable).tolist()
    ]
    return pairs, usable.size - len(pairs)
