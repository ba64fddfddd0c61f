"""Named random streams from one seed, so that adding a user or a draw leaves all others as they were."""

from __future__ import annotations

import random
from hashlib import blake2b

import numpy as np

__all__ = ["derived_seed", "stream", "text_stream"]

_SEPARATOR = b"\x1f"


def derived_seed(seed: int | str, *names: object) -> int:
    """Return a 63-bit seed that depends on `seed` and all `names`, one-way: the inputs can't be read off it.

    Seed and names are compared by their `str` and kept apart by U+001F: `("ab", "c")` and `("a", "bc")` give different
    seeds. A name that holds a U+001F of its own counts as two, so a caller whose names are free text must see to it.
    Any text is a name, half of a surrogate pair too.
    """
    text = _SEPARATOR.join(str(part).encode("utf-8", "surrogatepass") for part in (seed, *names))
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def stream(seed: int | str, *names: object) -> np.random.Generator:
    """Return the NumPy generator of the stream `names` under `seed`."""
    return np.random.default_rng(derived_seed(seed, *names))


def text_stream(seed: int | str, *names: object) -> random.Random:
    """Return the same kind of stream as a standard-library generator: five times cheaper to create, for one text."""
    return random.Random(derived_seed(seed, *names))
