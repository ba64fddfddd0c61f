"""Simulated users: who they are, which prompts they start from. Nothing here depends on a mapping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.prompts import PromptPools
from apm_lab.maths.seeding import derived_seed, stream
from apm_lab.maths.users import balanced_attributes, iid_attributes
from apm_lab.records import Prompt

__all__ = ["Users", "make_users"]


@dataclass(frozen=True, slots=True)
class Users:
    """U users of one split.

    `ids` are random and carry nothing; `numbers` are the stable numbers that give each user texts of their own;
    `attributes` (U, N) is hidden from every method; `neutral` holds T source prompts per user, `queries` one per test
    user (empty for training users).
    """

    split: str
    ids: tuple[str, ...]
    numbers: tuple[int, ...]
    attributes: NDArray[np.int8]
    neutral: tuple[tuple[str, ...], ...]
    queries: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def make_users(
    split: str, count: int, *, attributes: int, active: int, turns: int, balance: bool, pools: PromptPools, seed: int
) -> Users:
    """Return `count` users of `split` (train, validation or test); fewer users are the beginning of more.

    Prompts are assigned by each user's own random stream, never twice for one user. Only test users have queries.
    """
    make = balanced_attributes if balance else iid_attributes
    histories = pools.test_history if split == "test" else pools.train
    numbers = tuple(derived_seed(seed, "user", split, user) for user in range(count))
    neutral = tuple(_some(histories, turns, seed, "history", split, user) for user in range(count))
    asking = range(count if split == "test" else 0)
    queries = tuple(_some(pools.test_query, 1, seed, "query", split, user)[0] for user in asking)
    return Users(
        split,
        tuple(f"{derived_seed(number, 'id'):016x}" for number in numbers),
        numbers,
        make(count, attributes, active, seed, split),
        neutral,
        queries,
    )


def _some(pool: Sequence[Prompt], most: int, seed: int, *names: object) -> tuple[str, ...]:
    """Return the texts of `most` different prompts; more of them begin with the same ones."""
    order = stream(seed, *names).permutation(len(pool))[:most]
    return tuple(pool[place].text for place in order)
