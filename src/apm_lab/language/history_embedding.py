"""The vector of a user's history, by which users are compared (APM Sec. 4, Eq. 4; SPEC "Methods")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.language.protocols import Embedder
from apm_lab.language.stored_vectors import checked_vectors

__all__ = ["Pooling", "history_embeddings", "unit_rows"]

Pooling = Literal["mean", "concat"]


def history_embeddings(
    encoder: Embedder, histories: Sequence[Sequence[str]], pooling: Pooling = "mean"
) -> NDArray[np.float32]:
    """Return the histories' vectors (U, H), of length 1; one that is zero stays zero.

    `mean`: the mean of the prompts' normalised vectors. `concat`: the vector of the prompts as one text, joined by
    blank lines. DataError naming the encoder where its vectors are not finite or not one per text.
    """
    if pooling == "concat":
        return unit_rows(checked_vectors(encoder, ["\n\n".join(history) for history in histories]))
    owners = [user for user, history in enumerate(histories) for _ in history]
    prompts = unit_rows(checked_vectors(encoder, [prompt for history in histories for prompt in history]))
    sums = np.zeros((len(histories), prompts.shape[1]))
    np.add.at(sums, owners, prompts)  # a mean and a sum point the same way
    return unit_rows(sums)


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1; zero rows stay zero."""
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return unit.astype(np.float32)
