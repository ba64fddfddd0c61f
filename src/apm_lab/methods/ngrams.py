"""A bag of word n-grams with a linear model: the router that a trained encoder must be printed beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.maths.outcomes import outcome
from apm_lab.training.targets import Objective, checked_targets
from apm_lab.training.validation_set import ValidationSet

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression, Ridge

__all__ = ["NgramRouter", "history_ngrams"]

_WORDS = re.compile(r"\w+")


def history_ngrams(history: Sequence[str], longest: int) -> list[str]:
    """Return the lower-cased word 1..`longest`-grams of each prompt; none spans two prompts."""
    grams: list[str] = []
    for prompt in history:
        words = _WORDS.findall(prompt.lower())
        for size in range(1, longest + 1):
            grams += [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)]
    return grams


class NgramRouter:
    """A `StyleRouter`: n-gram features, then logistic regression (classification) or ridge (regression).

    `weighting`: `binary` (is the n-gram there) or `tfidf`, rows of length 1 in both. N-grams seen in fewer than
    `min_users` histories are left out. `penalty`: strength of the L2 penalty of the
    logistic regression (1 / C), `ridge_penalty`: of the ridge regression (alpha). Styles that
    no training user prefers score 0. The seed is not used: both fits are convex and exact.
    """

    def __init__(
        self,
        *,
        longest: int = 2,
        weighting: Literal["binary", "tfidf"] = "tfidf",
        min_users: int = 2,
        penalty: float = 1.0,
        ridge_penalty: float = 10.0,
        max_iterations: int = 1000,
    ) -> None:
        if weighting not in ("binary", "tfidf"):
            raise ConfigError(f"router.weighting is {weighting!r}, expected binary or tfidf")
        if longest < 1 or min_users < 1 or min(penalty, ridge_penalty) <= 0 or max_iterations < 1:
            raise ConfigError(
                f"router: longest={longest}, min_users={min_users}, max_iterations={max_iterations} must be at least "
                f"1, penalty={penalty} and ridge_penalty={ridge_penalty} positive"
            )
        self._longest, self._weighting, self._min_users = longest, weighting, min_users
        self._penalty, self._ridge_penalty, self._max_iterations = penalty, ridge_penalty, max_iterations
        self._features: Any = None
        self._model: Any = None
        self._styles = 0
        self._constant: NDArray[np.float64] | None = None

    def fit(
        self,
        histories: Sequence[tuple[str, ...]],
        targets: NDArray[np.generic],
        *,
        objective: Objective,
        styles: int,
        validation: ValidationSet | None = None,
        seed: int = 0,
        log: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        """Train anew; see `StyleRouter.fit`. With validation, `log` gets the `val/` figures once."""
        checked = checked_targets(targets, len(histories), objective, styles)
        self._styles, self._model, self._constant = styles, None, _constant(checked, objective, styles)
        matrix = self._fit_features(histories)
        if matrix is not None and (objective == "regression" or len(np.unique(checked)) > 1):
            from threadpoolctl import threadpool_limits

            with threadpool_limits(1):  # on matrices this small, threads cost more than they bring: 5 s against 1 s
                self._model = self._new_model(objective).fit(matrix, checked)
        if validation is not None and log is not None:
            log(self._figures(validation, objective))

    def predict(self, histories: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Return scores (U, S): probabilities, or predicted ratings after regression."""
        if self._constant is None:
            raise RuntimeError("this router has not been fitted")
        if self._model is None or not histories:
            return np.tile(self._constant, (len(histories), 1))
        matrix = self._features.transform(histories)
        if not hasattr(self._model, "predict_proba"):
            return np.asarray(self._model.predict(matrix), dtype=np.float64).reshape(len(histories), self._styles)
        scores = np.zeros((len(histories), self._styles))
        scores[:, self._model.classes_] = self._model.predict_proba(matrix)
        return scores

    def _fit_features(self, histories: Sequence[tuple[str, ...]]) -> csr_matrix | None:
        """Return the features (U, F) of the training histories, or None when no n-gram is frequent enough."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._features = TfidfVectorizer(
            analyzer=lambda history: history_ngrams(history, self._longest),
            min_df=min(self._min_users, len(histories)),
            binary=self._weighting == "binary",
            use_idf=self._weighting == "tfidf",
            sublinear_tf=True,
        )
        try:
            return self._features.fit_transform(histories)
        except ValueError as error:
            if "vocabulary" not in str(error) and "no terms remain" not in str(error):
                raise
            return None

    def _new_model(self, objective: Objective) -> LogisticRegression | Ridge:
        from sklearn.linear_model import LogisticRegression, Ridge

        if objective == "regression":
            return Ridge(alpha=self._ridge_penalty, solver="sparse_cg", max_iter=self._max_iterations)
        return LogisticRegression(C=1.0 / self._penalty, max_iter=self._max_iterations)

    def _figures(self, validation: ValidationSet, objective: Objective) -> dict[str, float]:
        scores = self.predict(validation.histories)
        chosen = scores.argmax(axis=1)
        rows = np.arange(len(chosen))
        differences, known = validation.differences()
        counted = known[rows, chosen]
        figures: dict[str, float] = {}
        if counted.any():
            found = outcome(differences[rows, chosen], counted)
            figures |= {"val/delta": found.delta, "val/wl": found.wl, "val/win_rate": found.win_rate}
        if validation.respond is not None:
            answered, judged = validation.respond(rows, chosen)
            if judged.any():
                found = outcome(answered, judged)
                figures |= {"val/judged_delta": found.delta, "val/judged_wl": found.wl}
        if objective == "classification":
            figures["val/accuracy"] = float((chosen == validation.targets).mean())
        return figures


def _constant(
    targets: NDArray[np.int64] | NDArray[np.float64], objective: Objective, styles: int
) -> NDArray[np.float64]:
    """Return what to answer without any feature (S,): the labels' shares, or the mean ratings."""
    if objective == "regression":
        return np.asarray(targets.mean(axis=0), dtype=np.float64)
    return np.bincount(targets.astype(np.int64), minlength=styles) / len(targets)
