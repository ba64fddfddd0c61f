"""Which training users a test user is like, among those who have shown a preference (APM Sec. 4, Eq. 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError, DataError
from apm_lab.maths.nearest import nearest
from apm_lab.methods.preference_pairs import PreferencePair

__all__ = ["nearest_users", "pairs_by_user", "require_options"]


def require_options(neighbours: int, context_tokens: int) -> None:
    """Raise ConfigError for values that no retrieval can have."""
    for name, value in (("neighbours", neighbours), ("context_tokens", context_tokens)):
        if value < 1:
            raise ConfigError(f"method.{name}={value}: expected at least 1")


def pairs_by_user(pairs: Sequence[PreferencePair], neighbours: int) -> dict[int, list[PreferencePair]]:
    """Return each training user's pairs, for those who have any; DataError where these are fewer than `neighbours`."""
    found: dict[int, list[PreferencePair]] = {}
    for pair in pairs:
        found.setdefault(pair.user, []).append(pair)
    if len(found) < neighbours:
        raise DataError(
            f"method.neighbours={neighbours}: {len(found)} training users have answers that they rate differently; "
            "take fewer neighbours or more users.train"
        )
    return found


def nearest_users(
    queries: NDArray[np.float32], rows: NDArray[np.float32], users: Sequence[int], k: int
) -> list[list[int]]:
    """Return for each query (Q, H) the k of `users` whose rows (U, H) are nearest by cosine, nearest first."""
    places = np.asarray(users, dtype=np.int64)
    found: list[list[int]] = places[nearest(queries, rows[places], k)].tolist()
    return found
