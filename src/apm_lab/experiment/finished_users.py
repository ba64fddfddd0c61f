"""What a finished run's `users.parquet` says of one arm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import DataError
from apm_lab.maths.preference import TIE_TOLERANCE
from apm_lab.studies.arms import OWN_TEXT, ArmDraw

__all__ = ["UserRows", "read_user_rows"]

_COLUMNS = ("user", "draw", "reward", "neutral", "styled", "hit")


@dataclass(frozen=True, slots=True)
class UserRows:
    """The test users in order, and one `ArmDraw` per draw over them.

    Which response was given, and what was dropped or cut, is not in the file: `column` is -1, the counts are 0.
    """

    ids: tuple[str, ...]
    draws: tuple[ArmDraw, ...]


def read_user_rows(path: Path, arm: str, draws: int) -> UserRows:
    """Return an arm's rows of all draws 0..`draws`-1; DataError where the file is none of a run's, or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=list(_COLUMNS), filters=[("method", "=", arm)])
    except (OSError, pa.ArrowException) as fault:
        raise DataError(f"{path} can't be read: {' '.join(str(fault).split())}") from None
    absent = [name for name in _COLUMNS if name not in table.column_names]
    if absent:
        raise DataError(f"{path} lacks {', '.join(absent)}: written by another apm_lab; give the run's command again")
    columns = {name: np.array(table[name].to_pylist(), dtype=_TYPES.get(name)) for name in _COLUMNS}
    places = [np.flatnonzero(columns["draw"] == draw) for draw in range(draws)]
    users = [tuple(columns["user"][place].tolist()) for place in places]
    if not draws or len(set(users)) > 1 or not users[0] or len(set(users[0])) < len(users[0]):
        raise DataError(f"{path}: not one row of {arm} for every user and each of {draws} draws; the file is damaged")
    return UserRows(users[0], tuple(_arm(columns, place) for place in places))


_TYPES: dict[str, Any] = {"reward": np.float64, "neutral": np.float64, "styled": np.bool_, "hit": np.bool_}


def _arm(columns: dict[str, NDArray[Any]], place: NDArray[np.intp]) -> ArmDraw:
    reward, neutral = columns["reward"][place], columns["neutral"][place]
    known = np.isfinite(reward) & np.isfinite(neutral)
    apart = reward - neutral
    none = np.array(0, dtype=np.int64)
    return ArmDraw(
        np.full(len(place), OWN_TEXT, dtype=np.int64),
        np.where(np.abs(apart) <= TIE_TOLERANCE, 0.0, apart),  # rewards are rounded sums: ties would break
        known,
        reward,
        neutral,
        columns["styled"][place],
        columns["hit"][place],
        none,
        none,
    )
