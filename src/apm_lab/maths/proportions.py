"""Whether two shares differ: RMP's two-proportion z-test, and the exact test for shares of the same items.

The z-test takes its two samples to be independent. Shares of one set of items are not: the exact paired test is there
to be printed beside it (SPEC 2, Steering).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ShareTest", "one_or_other", "paired_shares", "rejected", "two_shares", "wilson"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShareTest:
    """A test of p1 against p2 in both one-sided directions; `z` is None where the test is exact, or has no variance.

    `larger`: the p-value against the alternative p1 > p2, `smaller`: against p1 < p2; None where nothing can be tested.
    """

    z: float | None
    larger: float | None
    smaller: float | None
    n: int

    @property
    def two_sided(self) -> float | None:
        """The p-value against p1 and p2 being different."""
        if self.larger is None or self.smaller is None:
            return None
        return min(1.0, 2.0 * min(self.larger, self.smaller))


def two_shares(hits: int, n: int, other_hits: int, other_n: int) -> ShareTest:
    """Return the two-proportion z-test with pooled variance of hits / n against other_hits / other_n (statsmodels)."""
    together = hits + other_hits
    if not n or not other_n or not 0 < together < n + other_n:  # no variance: all or none are hits
        return ShareTest(None, None, None, n + other_n)
    from statsmodels.stats.proportion import proportions_ztest

    (z, larger), (_, smaller) = (
        proportions_ztest([hits, other_hits], [n, other_n], alternative=alternative)
        for alternative in ("larger", "smaller")
    )
    return ShareTest(float(z), float(larger), float(smaller), n + other_n)


def paired_shares(one: Mask, other: Mask) -> ShareTest:
    """Return McNemar's exact test of two indicators (I,) of the same items: a binomial test of those that differ."""
    return one_or_other(int((one & ~other).sum()), int((other & ~one).sum()))


def one_or_other(only_one: int, only_other: int) -> ShareTest:
    """Return the exact test of items that are one thing or the other: as many of each, by tosses of a coin (scipy)."""
    from scipy.stats import binomtest

    n = only_one + only_other
    if not n:
        return ShareTest(None, None, None, 0)
    larger, smaller = (
        float(binomtest(only_one, n, 0.5, alternative=alternative).pvalue) for alternative in ("greater", "less")
    )
    return ShareTest(None, larger, smaller, n)


def rejected(p_values: Sequence[float | None], level: float = 0.05) -> Mask:
    """Return which null hypotheses (n,) are rejected at this false discovery rate (Benjamini & Hochberg; statsmodels).

    Missing p-values are no part of the family and are never rejected.
    """
    known = np.array([value is not None for value in p_values], dtype=bool)
    found = np.zeros(len(p_values), dtype=bool)
    if known.any():
        from statsmodels.stats.multitest import multipletests

        family: ArrayLike = [value for value in p_values if value is not None]
        found[known] = multipletests(family, alpha=level, method="fdr_bh")[0]
    return found


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95% interval of a share by Wilson's score (statsmodels); ValueError without a case."""
    from statsmodels.stats.proportion import proportion_confint

    if not n:
        raise ValueError("an interval of a share of nothing")
    low, high = proportion_confint(hits, n, method="wilson")
    return float(low), float(high)
