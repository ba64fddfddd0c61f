"""An encoder with a memory: what the store holds is not embedded again."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.store import KEY_BYTES, Keeping
from apm_lab.errors import DataError
from apm_lab.language.protocols import Embedder
from apm_lab.language.recall import CallCounts

__all__ = ["StoredVectors", "checked_vectors"]

_AT_ONCE = 1024  # texts, after which their vectors are kept


class StoredVectors:
    """An `Embedder` that takes vectors from the shelf, and asks the encoder only for those that are missing."""

    def __init__(self, encoder: Embedder, shelf: Keeping[NDArray[np.float32]], counts: CallCounts) -> None:
        self.encoder, self._shelf, self._counts = encoder, shelf, counts

    @property
    def identity(self) -> str:
        """The encoder's own."""
        return self.encoder.identity

    @property
    def engine(self) -> str:
        """The encoder's own."""
        return self.encoder.engine

    @property
    def key_header(self) -> tuple[str, ...]:
        """What all keys begin with; asked for late, since an encoder that is not fetched yet has no identity."""
        return "embed", self.identity, self.engine

    def keys(self, texts: Sequence[str]) -> list[bytes]:
        """Return the store keys of texts (SPEC "Store key"): method, draw, role and run are not in them."""
        prefix = blake2b("\x1f".join(self.key_header).encode() + b"\x1e", digest_size=KEY_BYTES)
        found = []
        for text in texts:
            digest = prefix.copy()
            digest.update(text.encode("utf-8", "surrogatepass"))
            found.append(digest.digest())
        return found

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, (n, H), in order; equal texts are embedded once, and kept as they come.

        Raises DataError where the encoder gives another number of vectors, or some that are not finite.
        """
        if not texts:
            return checked_vectors(self.encoder, texts)
        keys, header = self.keys(texts), self.key_header
        shelf = self._shelf.of(header, self._counts)
        vectors = shelf.get(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        self._counts.asked += len(texts)
        fresh = list(missing)
        for start in range(0, len(fresh), _AT_ONCE):
            part = fresh[start : start + _AT_ONCE]
            made = checked_vectors(self.encoder, [missing[key] for key in part])
            self._counts.made += len(part)
            shelf.put(zip(part, made, strict=True))
            # Read back: when another job wrote the same key first, its vector is the one that counts.
            vectors |= dict(zip(part, made, strict=True)) | shelf.settled(part)
        sizes = sorted({len(vector) for vector in vectors.values()})
        if len(sizes) > 1:
            raise DataError(f"encoder {self.identity} gave vectors of different lengths: {sizes}")
        return np.stack([vectors[key] for key in keys])


def checked_vectors(encoder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the encoder's vectors (n, H); DataError naming it where they are not one finite row per text."""
    vectors = np.asarray(encoder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise DataError(
            f"encoder {encoder.identity} gave vectors of shape {vectors.shape} for {len(texts)} texts; "
            "expected one row per text"
        )
    if not np.isfinite(vectors).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise DataError(
            f"encoder {encoder.identity} gave numbers that are not finite, first for the text {texts[bad]!r:.60}"
        )
    return vectors
