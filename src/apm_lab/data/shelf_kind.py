"""What the store can keep: how a value is written, read back, and summed into its checksum."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCORES", "TEXTS", "VECTORS", "Kind", "checksum"]

_DOUBLE = struct.Struct("<d")

Rows = Iterable[tuple[bytes, Any, int]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    `column` is its SQL type. `bound` gives what SQLite is handed, `packed` the bytes that the checksum is made of (from
    what SQLite returns, with texts as bytes), `value` the value itself. `read` puts rows (key, value, checksum) into a
    dictionary and returns the key of the first one that is not sound. Rows of a few bytes lie in the key's own tree.
    """

    name: str
    column: str
    bound: Callable[[Any], Any]
    packed: Callable[[Any], bytes]
    value: Callable[[Any], Any]
    read: Callable[[Rows, dict[bytes, Any]], bytes | None]
    in_key_tree: bool


def checksum(key: bytes, packed: bytes) -> int:
    """Return the CRC-32 over a row's key and value."""
    return crc32(packed, crc32(key))


def _packed_text(raw: str | bytes) -> bytes:
    return raw.encode() if isinstance(raw, str) else raw


def _vector(raw: bytes) -> NDArray[np.float32]:
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)


def _bound_vector(vector: NDArray[np.float32]) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


# A loop for each kind, with nothing called for a row that need not be: reading is what a run of stored calls does.
def _read_texts(rows: Rows, found: dict[bytes, Any]) -> bytes | None:
    for key, raw, expected in rows:
        if crc32(raw, crc32(key)) != expected:
            return key
        found[key] = raw.decode()
    return None


def _read_scores(rows: Rows, found: dict[bytes, Any]) -> bytes | None:
    pack = _DOUBLE.pack
    for key, raw, expected in rows:
        if crc32(pack(raw), crc32(key)) != expected:
            return key
        found[key] = raw
    return None


def _read_vectors(rows: Rows, found: dict[bytes, Any]) -> bytes | None:
    for key, raw, expected in rows:
        if crc32(raw, crc32(key)) != expected:
            return key
        found[key] = _vector(raw)
    return None


TEXTS = Kind("texts", "TEXT", str, _packed_text, bytes.decode, _read_texts, in_key_tree=False)
SCORES = Kind("scores", "REAL", float, _DOUBLE.pack, float, _read_scores, in_key_tree=True)
VECTORS = Kind("vectors", "BLOB", _bound_vector, bytes, _vector, _read_vectors, in_key_tree=False)
