"""The Bayes reader: the best anyone could do at telling a simulated user's attribute from history.

It knows the rewriter's rates, which no method may; its accuracy is the ceiling that every router is printed beside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import require_known
from apm_lab.language.simulated.wordings import ATTRIBUTES, catalogue, rates, tokens_of

__all__ = ["BayesReader"]


class BayesReader:
    """Posterior over (attribute, sign) classes of one active attribute, with every wording independent given the class.

    Args:
        attributes: keys of the pool's attributes, N of them.
        neutral_prompts: the source prompts; a wording that stands in some of them anyway tells that much less.

    """

    def __init__(self, attributes: Sequence[str], neutral_prompts: Sequence[str]) -> None:
        require_known("pool.attributes: the Bayes reader knows no", attributes, ATTRIBUTES)
        natural = np.mean([self._occurs(text) for text in neutral_prompts], axis=0)
        places = [ATTRIBUTES.index(name) for name in attributes]
        shown = np.array([rates(((place, sign),)) for place in places for sign in (1, -1)])
        seen = np.clip(1.0 - (1.0 - shown) * (1.0 - natural), 1e-9, 1.0 - 1e-9)
        self._present, self._absent = np.log(seen), np.log1p(-seen)

    def posterior(self, histories: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return P(class | history), shape (U, 2N); class `2 i` is attribute i shown, `2 i + 1` its opposite."""
        logs = np.empty((len(histories), len(self._present)))
        for user, history in enumerate(histories):
            occurs = np.array([self._occurs(text) for text in history])
            logs[user] = (occurs @ self._present.T + ~occurs @ self._absent.T).sum(axis=0)
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    @staticmethod
    def _occurs(text: str) -> NDArray[np.bool_]:
        tokens = tokens_of(text)
        grams = {tuple(tokens[i : i + n]) for n in (2, 3) for i in range(len(tokens) - n + 1)}
        return np.fromiter((wording.tokens in grams for wording in catalogue()), bool)
