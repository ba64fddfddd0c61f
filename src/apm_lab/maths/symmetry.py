"""The Monte-Carlo test of a random matrix C for `E[C] = 0` and `C a ~ -C a`, premises of APM Theorems 1 and 2.

The entrywise means are tested, and odd statistics of single entries and of random projections `w . C a` with random
sparse `a`. If C is sign-symmetric then each statistic is, given the absolute values, a sum of known weights with fair
signs, and Hoeffding's inequality bounds its tail: P(|sum| > t sqrt(sum of squares)) <= 2 exp(-t^2 / 2). With t from a
union bound over all tests the chance of a false alarm is below `FALSE_ALARM` for any distribution, however skewed its
sizes or heavy its tails. With 4000 samples a mean of about a tenth of the s.d. is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALSE_ALARM", "asymmetry"]

Array = NDArray[np.float64]

FALSE_ALARM = 5e-4
"""The most that the chance of finding fault with a sign-symmetric matrix can be."""

_CHUNK = 200  # matrices held at once
_MOST_ENTRIES = 400  # single entries tested for symmetry; above this a random choice of them
_PROJECTIONS = 128  # random (vector, direction) pairs tested besides


def asymmetry(draw: Callable[[], Array], rng: np.random.Generator, samples: int) -> str | None:
    """Return what fails (the entry or vector, its value, what was expected) over `samples` draws, None if nothing does.

    `draw` returns independent (M, N) draws of C; `rng` chooses vectors and directions.
    """
    first = draw()
    vectors, directions = _probes(rng, *first.shape)
    total, squares, seen, left = np.zeros_like(first), np.zeros_like(first), [], samples
    while left:
        C = np.stack([draw() for _ in range(min(_CHUNK, left))])
        left -= len(C)
        total += C.sum(0)
        squares += (C**2).sum(0)
        seen.append(np.einsum("smq,qm->sq", C @ vectors.T, directions))
    odd = _odd_statistics(np.concatenate(seen))
    tests = first.size + len(vectors) * len(odd)
    bound = math.sqrt(2 * math.log(2 * tests / FALSE_ALARM))
    return _mean_fault(total, squares, samples, bound) or _symmetry_fault(odd, vectors, directions, bound)


def _probes(rng: np.random.Generator, M: int, N: int) -> tuple[Array, Array]:
    """Return attribute vectors (Q, N) and directions (Q, M): unit pairs first (single entries of C), then random."""
    entries = np.sort(rng.permutation(M * N)[:_MOST_ENTRIES])
    active = rng.integers(1, N + 1, size=(_PROJECTIONS, 1))
    ranks = rng.random((_PROJECTIONS, N)).argsort(axis=1).argsort(axis=1)
    signs = np.where(rng.random((_PROJECTIONS, N)) < 0.5, -1.0, 1.0)
    vectors = np.concatenate([np.eye(N)[entries % N], np.where(ranks < active, signs, 0.0)])
    return vectors, np.concatenate([np.eye(M)[entries // N], rng.standard_normal((_PROJECTIONS, M))])


def _odd_statistics(z: Array) -> dict[str, Array]:
    size = np.abs(z)
    half, tenth = (np.where(size > np.quantile(size, q, axis=0), np.sign(z), 0.0) for q in (0.5, 0.9))
    return {
        "mean": z,
        "mean sign": np.sign(z),
        "mean cube": z**3,
        "mean sign of the larger half": half,
        "mean sign of the largest tenth": tenth,
    }


def _mean_fault(total: Array, squares: Array, samples: int, bound: float) -> str | None:
    scores = _standardised(total, squares)
    j, i = np.unravel_index(scores.argmax(), scores.shape)
    if scores[j, i] <= bound:
        return None
    return (
        f"E[C] isn't 0: entry (principle {j}, attribute {i}) has mean {total[j, i] / samples:.4g} over {samples} "
        f"draws, expected 0 (within {bound * math.sqrt(squares[j, i]) / samples:.2g}; APM Theorem 1)"
    )


def _symmetry_fault(odd: dict[str, Array], vectors: Array, directions: Array, bound: float) -> str | None:
    for statistic, values in odd.items():
        total, squares = values.sum(0), (values**2).sum(0)
        scores = _standardised(total, squares)
        q = int(scores.argmax())
        if scores[q] > bound:
            samples = len(values)
            return (
                f"C a and -C a are distributed differently for a = {_terms(vectors[q])}: {statistic} of "
                f"({_terms(directions[q])}) . C a is {total[q] / samples:.4g} over {samples} draws, expected 0 "
                f"(within {bound * math.sqrt(squares[q]) / samples:.2g}; APM Theorem 2)"
            )
    return None


def _standardised(total: Array, squares: Array) -> Array:
    # the squares vanish only where every value does
    return np.divide(np.abs(total), np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)


def _terms(vector: Array) -> str:
    return " ".join(f"{vector[i]:+.3g}*e{i}" for i in np.flatnonzero(vector))
