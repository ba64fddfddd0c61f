"""Ranks of groups within a model, and how far models agree on them (RMP Sec. 6.1; SPEC 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Agreement", "agreement", "permutation_p", "ranks"]

Array = NDArray[np.float64]


def ranks(values: ArrayLike) -> Array:
    """Return the ranks (R, G) of each row's values (R, G): 1 for the largest, ties averaged."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-np.asarray(values, dtype=np.float64), axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike R models rank G groups.

    `spearman`: mean over pairs of models, None below two models or where some model ranks all groups alike. `pairs`
    (R, R): of each pair, NaN where there is none. `friedman`, `p_value`: Friedman's test with groups as treatments and
    models as blocks, None below three groups or two models. `kendall_w`: in [0, 1], of the same ranks.
    """

    models: int
    groups: int
    spearman: float | None
    pairs: Array
    friedman: float | None
    p_value: float | None
    kendall_w: float | None


def agreement(values: ArrayLike) -> Agreement:
    """Return the agreement of models on alignment (R, G), every cell of which must be known.

    Without ties `spearman = (R W - 1) / (R - 1)` and `friedman = R (G - 1) W`, W being Kendall's. Statistics by scipy.
    """
    from scipy.stats import friedmanchisquare

    ranked = ranks(values)
    models, groups = ranked.shape
    pairs = _correlations(ranked)
    above = pairs[np.triu_indices(models, 1)]
    spearman = float(above.mean()) if len(above) and np.isfinite(above).all() else None
    statistic = p_value = kendall = None
    # Where every model ranks all groups alike there is no variance, and nothing to test.
    if models >= 2 and groups >= 3 and np.ptp(ranked, axis=1).any():
        told = friedmanchisquare(*(-ranked).T)
        statistic, p_value = float(told.statistic), float(told.pvalue)
        kendall = statistic / (models * (groups - 1))
    return Agreement(models, groups, spearman, pairs, statistic, p_value, kendall)


def _correlations(ranked: Array) -> Array:
    """Return Pearson's correlation (R, R) of rows, NaN where one is constant."""
    centred = ranked - ranked.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.square(centred).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = centred @ centred.T / (norms[:, None] * norms)
    return found


def permutation_p(values: ArrayLike, rng: np.random.Generator, permutations: int = 9999) -> float | None:
    """Return the p-value of Kendall's W (and so of the mean Spearman) of values (R, G) when models rank by chance.

    Every model's ranks are permuted on their own; the observed W counts as one of them. None below two models or two
    groups, or where some model ranks all groups alike.
    """
    ranked = ranks(values)
    models, groups = ranked.shape
    if models < 2 or groups < 2 or not np.ptp(ranked, axis=1).all():
        return None

    def spread(sums: Array) -> Array:
        found: Array = np.square(sums - sums.mean(axis=-1, keepdims=True)).sum(axis=-1)
        return found

    sums = np.zeros((permutations, groups))
    for row in ranked:
        sums += rng.permuted(np.broadcast_to(row, (permutations, groups)), axis=1)
    # Sums of ranks are halves: what differs by less is rounding.
    extreme = int((spread(sums) >= spread(ranked.sum(axis=0)) - 1e-9).sum())
    return (1 + extreme) / (1 + permutations)
