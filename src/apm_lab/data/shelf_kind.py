"""What the store can keep: how a value is written, read back, and summed into its checksum."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCORES", "TEXTS", "VECTORS", "Kind", "checksum"]

_DOUBLE = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    `column` is its SQL type. `bound` gives what SQLite is handed, `packed` the bytes that the checksum is made of (from
    what SQLite returns, with texts as bytes), `value` the value itself. Rows of a few bytes lie in the key's own tree.
    """

    name: str
    column: str
    bound: Callable[[Any], Any]
    packed: Callable[[Any], bytes]
    value: Callable[[Any], Any]
    in_key_tree: bool


def checksum(key: bytes, packed: bytes) -> int:
    """Return the CRC-32 over a row's key and value."""
    return crc32(packed, crc32(key))


def _packed_text(raw: str | bytes) -> bytes:
    return raw.encode() if isinstance(raw, str) else raw


def _vector(raw: bytes) -> NDArray[np.float32]:
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)


TEXTS = Kind("texts", "TEXT", str, _packed_text, bytes.decode, in_key_tree=False)
SCORES = Kind("scores", "REAL", float, _DOUBLE.pack, float, in_key_tree=True)
VECTORS = Kind("vectors", "BLOB", lambda vector: np.asarray(vector, dtype="<f4").tobytes(), bytes, _vector, False)
