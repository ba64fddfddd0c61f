"""Attribute vectors a_u of simulated users: exactly k of N attributes are active, each with a sign (APM Sec. 3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.maths.seeding import stream

__all__ = ["balanced_attributes", "iid_attributes"]


def balanced_attributes(U: int, N: int, k: int, seed: int | str, split: str) -> NDArray[np.int8]:
    """Return (U, N) attribute vectors in {-1, 0, +1} with k non-zeros, balanced in shuffled blocks of 2N users.

    In a block every attribute is active 2k times, k times with each sign (k = 1: each attribute and sign once), and
    with every vector its negative, so that the preferences of a block sum to zero under any mapping and normalisation.
    The last block is cut, so fewer users are the beginning of more. `split` names the random stream: splits are
    independent of each other. ConfigError unless 1 <= k <= N and U >= 0. Source: SPEC 1, "Users".
    """
    _check(U, N, k)
    blocks = [_block(N, k, stream(seed, "attributes", split, b)) for b in range(-(-U // (2 * N)))]
    return np.concatenate([np.zeros((0, N), np.int8), *blocks])[:U]


def iid_attributes(U: int, N: int, k: int, seed: int | str, split: str) -> NDArray[np.int8]:
    """Return (U, N) attribute vectors, each user's active attributes and signs uniform and independent of all others.

    For `users.balance=false`. Fewer users are the beginning of more; errors as for `balanced_attributes`.
    """
    _check(U, N, k)
    # numpy fills row by row, so a user's numbers don't depend on how many users follow
    ranks = stream(seed, "attributes", split, "iid", "active").random((U, N)).argsort(axis=1).argsort(axis=1)
    positive = stream(seed, "attributes", split, "iid", "sign").random((U, N)) < 0.5
    return np.where(ranks < k, np.where(positive, 1, -1), 0).astype(np.int8)


def _block(N: int, k: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return one block (2N, N): the N cyclic shifts of a random k-subset with random signs, and their negatives."""
    offsets = rng.permutation(N)[:k]
    user = np.arange(N)[:, None]
    half = np.zeros((N, N), np.int8)
    half[user, (user + offsets) % N] = np.where(rng.random((N, k)) < 0.5, -1, 1)
    return rng.permutation(np.concatenate([half, -half]))


def _check(U: int, N: int, k: int) -> None:
    if U < 0:
        raise ConfigError(f"number of users {U}: expected 0 or more")
    if N < 1:
        raise ConfigError(f"pool.attributes={N} (N): expected at least 1")
    if not 1 <= k <= N:
        raise ConfigError(f"users.active={k} (k): expected 1 to {N}, the number of attributes (pool.attributes)")
