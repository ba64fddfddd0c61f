"""The figures of a personalization run: one summary per arm, and the columns of its parquet files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apm_lab.maths.inference import METRICS, ControlVerdict, Interval, control_check, mean_interval, metric_interval
from apm_lab.maths.outcomes import DrawOutcome, outcome
from apm_lab.maths.paired import Comparison, compare_methods
from apm_lab.studies.evaluation import BAYES, CONTROLS, SHUFFLED
from apm_lab.studies.personalization import PersonalizationDraws

__all__ = [
    "ArmSummary",
    "Summary",
    "arm_summary",
    "comparison_columns",
    "paired",
    "results_columns",
    "summarise",
    "users_columns",
]


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm over all draws: per-draw outcomes, 95% intervals by METRICS, and the verdict where it is a control.

    `accuracies` has each draw's share of users answered in one of their true top styles, over those answered in a
    style at all, `answered` of them over all draws; it is None, as `accuracy` is, for an arm that answers in no style.
    `dropped` and `truncated` are sums over draws (`ArmDraw`).
    """

    name: str
    draws: tuple[DrawOutcome, ...]
    intervals: dict[str, Interval]
    accuracies: tuple[float, ...] | None
    answered: int
    accuracy_interval: Interval | None
    control: ControlVerdict | None
    dropped: int
    truncated: int

    @property
    def n(self) -> int:
        """User-draw pairs with a known difference."""
        return sum(draw.n for draw in self.draws)

    @property
    def n_missing(self) -> int:
        """User-draw pairs without one."""
        return sum(draw.n_missing for draw in self.draws)

    def spread(self, metric: str) -> tuple[float, float]:
        """Return the paper's figure: mean and s.d. (ddof 1) over draws of one of METRICS."""
        values = np.array([getattr(draw, metric) for draw in self.draws], dtype=np.float64)
        if not np.isfinite(values).all():  # W/L without a loss is inf, without a decided user nan: shown as such
            with np.errstate(invalid="ignore"):  # inf and -inf have no mean
                return float(values.mean()), math.nan
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan

    @property
    def accuracy(self) -> float | None:
        """Mean over draws of `accuracies`; None without any."""
        return None if self.accuracies is None else float(np.mean(self.accuracies))


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's figures: arms by name, the method against all others but `shuffled`, and what is to be known of them.

    `void` names the control arms that are not zero, `unhealthy` the faults of a judge that was used all the same.
    """

    method: str
    arms: dict[str, ArmSummary]
    comparisons: dict[str, Comparison]
    void: tuple[str, ...]
    unhealthy: tuple[str, ...]

    def significant(self, name: str) -> bool:
        """Return whether the method differs from this arm; nothing in a void run does."""
        return self.comparisons[name].significant and not self.void

    @property
    def bayes_accuracy(self) -> float | None:
        """The Bayes reader's accuracy, where the world has one."""
        return self.arms[BAYES].accuracy if BAYES in self.arms else None


def summarise(draws: PersonalizationDraws, seed: int) -> Summary:
    """Return the figures of all arms, in the order of evaluation, from their differences (D, U)."""
    arms = {name: arm_summary(draws, name, seed) for name in draws.arms[0]}
    void = tuple(name for name in CONTROLS if name in arms and not _passed(arms[name]))
    # `shuffled` is scored with other users' preferences: a difference of the two would compare nothing.
    others = [name for name in arms if name not in (draws.method, SHUFFLED)]
    comparisons = {name: paired(draws, draws.method, name, seed) for name in others}
    return Summary(draws.method, arms, comparisons, void, tuple(draws.health.faults))


def paired(draws: PersonalizationDraws, name: str, other: str, seed: int) -> Comparison:
    """Return how arm `name` compares with arm `other`, over the users for whom both differences are known."""
    known = _matrix(draws, name, "known") & _matrix(draws, other, "known")
    apart = _matrix(draws, name, "difference") - _matrix(draws, other, "difference")
    return compare_methods(np.where(known, apart, np.nan), known, draws.blocks, seed)


def _passed(arm: ArmSummary) -> bool:
    return arm.control is None or arm.control.passed


def arm_summary(draws: PersonalizationDraws, name: str, seed: int) -> ArmSummary:
    """Return one arm's figures; the seed names the bootstrap's stream."""
    values, known = _matrix(draws, name, "difference"), _matrix(draws, name, "known")
    styled, hits = _matrix(draws, name, "styled"), _matrix(draws, name, "hit").astype(np.float64)
    routes = styled.any(axis=1).all()
    intervals = {metric: metric_interval(metric, values, known, draws.blocks, seed) for metric in METRICS}
    return ArmSummary(
        name,
        tuple(outcome(row, mask) for row, mask in zip(values, known, strict=True)),
        intervals,
        tuple((hits.sum(axis=1) / styled.sum(axis=1)).tolist()) if routes else None,
        int(styled.sum()),
        mean_interval(hits, styled, draws.blocks) if routes else None,
        control_check(values, known, draws.blocks) if name in CONTROLS else None,
        int(_matrix(draws, name, "dropped").sum()),
        int(_matrix(draws, name, "truncated").sum()),
    )


def _matrix(draws: PersonalizationDraws, name: str, field: str) -> Any:  # noqa: ANN401 (float or bool array)
    return np.stack([getattr(arms[name], field) for arms in draws.arms])


def results_columns(draws: PersonalizationDraws, summary: Summary, seed: int) -> dict[str, list[Any]]:
    """Return the columns of `results.parquet`: a row per draw, arm and metric, and one per arm and metric over draws.

    `draw` is null for figures over all draws. Intervals of single draws have the user part alone (SPEC 1). `void` and
    `unhealthy` stand in every row, so that no figure can be taken out of a run without its verdict.
    """
    rows = [row for arm in summary.arms.values() for row in (*_rows_of_draws(draws, arm, seed), *_rows_over_draws(arm))]
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in _COLUMNS}
    columns["note"] = [note or "" for note in columns["note"]]
    columns["void"] = [bool(summary.void)] * len(rows)
    columns["unhealthy"] = [bool(summary.unhealthy)] * len(rows)
    return columns


_COLUMNS = ("draw", "method", "metric", "value", "low", "high", "sd", "note", "n", "n_missing")


def _rows_of_draws(draws: PersonalizationDraws, arm: ArmSummary, seed: int) -> Iterator[dict[str, Any]]:
    alone = np.zeros(1, dtype=np.int64)
    for draw, result in enumerate(arm.draws):
        done = draws.arms[draw][arm.name]
        head = {"draw": draw, "method": arm.name}
        counted = {"n": result.n, "n_missing": result.n_missing}
        for metric in METRICS:
            interval = metric_interval(metric, done.difference[None], done.known[None], alone, seed)
            yield {**head, "metric": metric, "value": getattr(result, metric), **_bounds(interval), **counted}
        for metric in ("wins", "losses", "ties"):
            yield {**head, "metric": metric, "value": float(getattr(result, metric)), **counted}
        for metric in ("dropped", "truncated"):
            yield {**head, "metric": metric, "value": float(getattr(done, metric)), "n": None, "n_missing": None}
        if arm.accuracies is not None:
            seen = mean_interval(done.hit[None].astype(np.float64), done.styled[None], alone)
            answered = {"n": int(done.styled.sum()), "n_missing": int((~done.styled).sum())}
            yield {**head, "metric": "accuracy", "value": arm.accuracies[draw], **_bounds(seen), **answered}


def _rows_over_draws(arm: ArmSummary) -> Iterator[dict[str, Any]]:
    head = {"draw": None, "method": arm.name}
    for metric in METRICS:
        mean, deviation = arm.spread(metric)
        figure = {"metric": metric, "value": mean, "sd": deviation, **_bounds(arm.intervals[metric])}
        yield {**head, **figure, "n": arm.n, "n_missing": arm.n_missing}
    if arm.accuracies is not None and arm.accuracy_interval is not None:
        deviation = float(np.std(arm.accuracies, ddof=1)) if len(arm.accuracies) > 1 else math.nan
        figure = {"metric": "accuracy", "value": arm.accuracy, "sd": deviation, **_bounds(arm.accuracy_interval)}
        yield {**head, **figure, "n": arm.answered, "n_missing": arm.n + arm.n_missing - arm.answered}


def _bounds(interval: Interval) -> dict[str, Any]:
    return {"low": interval.low, "high": interval.high, "note": interval.note}


def comparison_columns(summary: Summary) -> dict[str, list[Any]]:
    """Return the columns of `comparisons.parquet`: a row per arm that the method is compared with.

    `delta`, `low`, `high`: the method's Delta less the other arm's, with its 95% interval; `significant`; the sign-flip
    test's `p` (null where there are too few draws) and its `note`.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("method", "other", "delta", "low", "high", "significant", "p", "note", "blocks", "users")
    }
    for other, compared in summary.comparisons.items():
        interval, flips = compared.interval, compared.sign_flip
        notes = "; ".join(filter(None, (interval.note, f"sign flips: {flips.note}")))
        row = (summary.method, other, interval.estimate, interval.low, interval.high, summary.significant(other))
        for name, value in zip(columns, (*row, flips.p, notes, interval.blocks, interval.users), strict=True):
            columns[name].append(value)
    return columns


def users_columns(draws: PersonalizationDraws) -> dict[str, Sequence[Any]]:
    """Return the columns of `users.parquet`: a row per test user, draw and arm: response given and both rewards."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("user", "draw", "method", "response", "reward", "neutral", "styled", "hit")
    }
    names = (*draws.styles, "neutral", "twin", "own text")
    for draw, arms in enumerate(draws.arms):
        for name, arm in arms.items():
            columns["user"] += draws.user_ids
            columns["draw"] += [draw] * len(draws.user_ids)
            columns["method"] += [name] * len(draws.user_ids)
            columns["response"] += [names[column] for column in arm.column.tolist()]
            known = arm.known.tolist()
            for field in ("reward", "neutral"):
                values = getattr(arm, field).tolist()
                columns[field] += [value if k else None for value, k in zip(values, known, strict=True)]
            columns["styled"] += arm.styled.tolist()
            columns["hit"] += arm.hit.tolist()
    return dict(columns)
