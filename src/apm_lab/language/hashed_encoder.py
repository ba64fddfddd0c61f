"""The embedded encoder: words and pairs of words, hashed into a vector. Nothing to download, nothing learnt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError

__all__ = ["HashedEncoder"]


class HashedEncoder:
    """Counts words and bigrams in `dimensions` signed places by their hash, each text scaled to length one.

    Inner products are those of the bags themselves in expectation (feature hashing), whatever the vocabulary is; two
    texts are near when they share wording. A text without words is the zero vector.
    """

    engine = "simulated"

    def __init__(self, dimensions: int = 1024) -> None:
        if dimensions < 1:
            raise ConfigError(f"encoder.dimensions={dimensions}: expected at least 1")
        self._dimensions = dimensions

    @property
    def identity(self) -> str:
        """The name, its version and size."""
        return f"hashed@1:{self._dimensions}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, (n, dimensions)."""
        from sklearn.feature_extraction.text import HashingVectorizer

        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        vectorizer = HashingVectorizer(
            n_features=self._dimensions, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", dtype=np.float32
        )
        vectors: NDArray[np.float32] = vectorizer.transform(texts).toarray()
        return vectors
