"""Named random streams from one seed, so that adding a user or a draw leaves all others as they were."""

from __future__ import annotations

import random
from hashlib import blake2b

import numpy as np

__all__ = ["derived_seed", "stream", "text_stream"]

_SEPARATOR = b"\x1f"


def derived_seed(seed: int | str, *names: object) -> int:
    """Return a 63-bit seed that depends on `seed` and all `names`, one-way: the inputs can't be read off it.

    Names are compared by their `str`; `("ab", "c")` and `("a", "bc")` give different seeds.
    """
    text = _SEPARATOR.join(str(part).encode() for part in (seed, *names))
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def stream(seed: int | str, *names: object) -> np.random.Generator:
    """Return the NumPy generator of the stream `names` under `seed`."""
    return np.random.default_rng(derived_seed(seed, *names))


def text_stream(seed: int | str, *names: object) -> random.Random:
    """Return the same kind of stream as a standard-library generator: five times cheaper to create, for one text."""
    return random.Random(derived_seed(seed, *names))
