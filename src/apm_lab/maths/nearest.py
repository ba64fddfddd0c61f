"""Exact nearest neighbours by inner product, a block of the matrix product at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest"]

_QUERIES, _ROWS = 1024, 8192  # of one block: 32 MiB of products
_GROUP = 64
_AT_ONCE = 16  # queries whose candidates are ranked together
_SPARE = 3  # candidates beyond k, so that what rounds alike in float32 is told apart in float64

Vectors = NDArray[np.float32]


def nearest(queries: Vectors, rows: Vectors, k: int, block: int = _ROWS) -> NDArray[np.int64]:
    """Return the k rows (Q, k) with the largest inner product with each query (Q, H), largest first, of rows (U, H).

    Cosine similarity where rows have length 1. Equal products go to the lowest index, whatever the `block` of rows that
    is multiplied at once; products that differ by less than float32 can tell may count as equal when the candidates are
    chosen, and are ordered in float64. ValueError where shapes don't fit or k is not in 1..U.
    """
    if queries.ndim != 2 or rows.ndim != 2 or queries.shape[1] != rows.shape[1]:
        raise ValueError(f"queries {queries.shape} and rows {rows.shape}: expected (Q, H) and (U, H)")
    if not 1 <= k <= len(rows) or block < 1:
        raise ValueError(f"k={k} of {len(rows)} rows, {block} at once: expected 1 <= k <= {len(rows)} and a block of 1")
    found = np.empty((len(queries), k), dtype=np.int64)
    for start in range(0, len(queries), _QUERIES):
        part = np.ascontiguousarray(queries[start : start + _QUERIES], dtype=np.float32)
        candidates = _candidates(part, rows, min(k + _SPARE, len(rows)), block)
        found[start : start + len(part)] = _ranked(part, rows, candidates, k)
    return found


def _candidates(queries: Vectors, rows: Vectors, count: int, block: int) -> NDArray[np.int64]:
    """Return the `count` rows (Q, count) with the largest products as float32 has them, in no order."""
    values = np.full((len(queries), count), -np.inf, dtype=np.float32)
    places = np.full((len(queries), count), len(rows), dtype=np.int64)
    height = -(-min(block, len(rows)) // _GROUP) * _GROUP
    columns = np.ascontiguousarray(queries.T)
    # Queries lie along the inner axis: the maxima of a group of rows are then taken of many queries at once.
    buffer = np.full((height, len(queries)), -np.inf, dtype=np.float32)
    groups = buffer.reshape(-1, _GROUP, len(queries))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        np.matmul(part, columns, out=buffer[: len(part)])
        buffer[len(part) :] = -np.inf
        maxima, least = groups.max(axis=1), values.min(axis=1)
        # At least `count` products reach the count-th largest maximum: what is smaller is no candidate.
        bound = np.partition(maxima, -count, axis=0)[-count] if count <= len(maxima) else least
        # Only what beats the worst candidate so far can change anything: later rows lose ties.
        group, query = np.nonzero((maxima > least) & (maxima >= bound))
        if len(query):
            products = groups[group, :, query]
            hit, row = np.nonzero((products > least[query, None]) & (products >= bound[query, None]))
            _merge(values, places, products[hit, row], query[hit], start + group[hit] * _GROUP + row)
    return places


def _merge(
    values: Vectors, places: NDArray[np.int64], fresh: Vectors, owner: NDArray[np.intp], place: NDArray[np.intp]
) -> None:
    """Put into `values` and `places` (Q, count) what is better among `fresh` ones (n,) of these queries and rows."""
    touched, count = np.unique(owner), values.shape[1]
    owners = np.concatenate([np.repeat(touched, count), owner])
    value = np.concatenate([values[touched].ravel(), fresh])
    at = np.concatenate([places[touched].ravel(), place])
    order = np.lexsort((at, -value, owners))
    begins = np.searchsorted(owners[order], touched)
    kept = order[begins[:, None] + np.arange(count)]
    values[touched], places[touched] = value[kept], at[kept]


def _ranked(queries: Vectors, rows: Vectors, candidates: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the best k (Q, k) of some rows for each query, by products in float64."""
    products = np.empty(candidates.shape)
    for start in range(0, len(queries), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        # Summed row by row, so that equal rows have equal products wherever they stand.
        products[part] = np.multiply(rows[candidates[part]], queries[part, None], dtype=np.float64).sum(axis=2)
    order = np.lexsort((candidates, -products), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, axis=1)
