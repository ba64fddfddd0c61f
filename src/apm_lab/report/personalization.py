"""The figures of a personalization run: one summary per arm, and the columns of its parquet files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apm_lab.maths.inference import ControlVerdict, Interval, control_check, mean_interval, metric_interval
from apm_lab.maths.outcomes import DrawOutcome, outcome
from apm_lab.maths.paired import Comparison, compare_methods
from apm_lab.studies.evaluation import CONTROLS
from apm_lab.studies.personalization import PersonalizationDraws

__all__ = ["ArmSummary", "Summary", "results_columns", "summarise", "users_columns"]


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm over all draws: per-draw outcomes, intervals at 95%, and the verdict where it is a control."""

    name: str
    draws: tuple[DrawOutcome, ...]
    hits: tuple[float, ...]
    delta: Interval
    win_loss: Interval
    win_rate: Interval
    accuracy_interval: Interval
    control: ControlVerdict | None

    @property
    def n(self) -> int:
        """User-draw pairs with a known difference."""
        return sum(draw.n for draw in self.draws)

    @property
    def n_missing(self) -> int:
        """User-draw pairs without one."""
        return sum(draw.n_missing for draw in self.draws)

    def spread(self, metric: str) -> tuple[float, float]:
        """Return the paper's figure: mean and s.d. (ddof 1) of `delta`, `win_loss` or `win_rate` over draws."""
        values = np.array([getattr(draw, metric) for draw in self.draws], dtype=np.float64)
        if not np.isfinite(values).all():  # W/L without a loss is inf, without a decided user nan: shown as such
            return float(values.mean()), math.nan
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan

    @property
    def accuracy(self) -> float:
        """Share of users answered in one of their true top styles."""
        return float(np.mean(self.hits))


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's figures: arms by name, the method against every other arm, and whether a control arm voids the run."""

    method: str
    arms: dict[str, ArmSummary]
    comparisons: dict[str, Comparison]
    void: tuple[str, ...]

    @property
    def bayes_accuracy(self) -> float | None:
        """The Bayes reader's accuracy, where the world has one."""
        return self.arms["bayes"].accuracy if "bayes" in self.arms else None


def summarise(draws: PersonalizationDraws, seed: int) -> Summary:
    """Return the figures of all arms, in the order of evaluation, from their differences (D, U)."""
    arms = {name: _arm(draws, name, seed) for name in draws.arms[0]}
    void = tuple(name for name in CONTROLS if name in arms and not _passed(arms[name]))
    mine = _matrix(draws, draws.method, "difference"), _matrix(draws, draws.method, "known")
    comparisons = {}
    for name in arms:
        # `shuffled` is scored with other users' preferences: a difference of the two would compare nothing.
        if name not in (draws.method, "shuffled"):
            other, known = _matrix(draws, name, "difference"), _matrix(draws, name, "known") & mine[1]
            comparisons[name] = compare_methods(np.where(known, mine[0] - other, np.nan), known, draws.blocks, seed)
    return Summary(draws.method, arms, comparisons, void)


def _passed(arm: ArmSummary) -> bool:
    return arm.control is None or arm.control.passed


def _arm(draws: PersonalizationDraws, name: str, seed: int) -> ArmSummary:
    values, known = _matrix(draws, name, "difference"), _matrix(draws, name, "known")
    hits = _matrix(draws, name, "hit").astype(np.float64)
    return ArmSummary(
        name,
        tuple(outcome(row, mask) for row, mask in zip(values, known, strict=True)),
        tuple(float(arms[name].hit.mean()) for arms in draws.arms),
        metric_interval("delta", values, known, draws.blocks, seed),
        metric_interval("win_loss", values, known, draws.blocks, seed),
        metric_interval("win_rate", values, known, draws.blocks, seed),
        mean_interval(hits, np.ones(hits.shape, dtype=bool), draws.blocks),
        control_check(values, known, draws.blocks) if name in CONTROLS else None,
    )


def _matrix(draws: PersonalizationDraws, name: str, field: str) -> Any:  # noqa: ANN401 (float or bool array)
    return np.stack([getattr(arms[name], field) for arms in draws.arms])


def results_columns(draws: PersonalizationDraws, summary: Summary, seed: int) -> dict[str, list[Any]]:
    """Return the columns of `results.parquet`: a row per draw, arm and metric, and one per arm and metric over draws.

    `draw` is null for figures over all draws. Intervals of single draws have the user part alone (SPEC 1).
    """
    rows: list[tuple[Any, ...]] = []
    for name, arm in summary.arms.items():
        for draw, result in enumerate(arm.draws):
            values = draws.arms[draw][name].difference[None]
            known = draws.arms[draw][name].known[None]
            for metric in ("delta", "win_loss", "win_rate"):
                interval = metric_interval(metric, values, known, np.zeros(1, dtype=np.int64), seed)
                rows.append(
                    (draw, name, metric, getattr(result, metric), *_bounds(interval), result.n, result.n_missing)
                )
            hits = draws.arms[draw][name].hit[None].astype(np.float64)
            seen = mean_interval(hits, np.ones(hits.shape, dtype=bool), np.zeros(1, dtype=np.int64))
            rows.append((draw, name, "accuracy", arm.hits[draw], *_bounds(seen), hits.size, 0))
            for metric in ("wins", "losses", "ties"):
                rows.append((draw, name, metric, float(getattr(result, metric)), None, None, None, "", result.n, 0))
        for metric in ("delta", "win_loss", "win_rate"):
            mean, deviation = arm.spread(metric)
            low, high, _, note = _bounds(getattr(arm, metric))
            rows.append((None, name, metric, mean, low, high, deviation, note, arm.n, arm.n_missing))
        spread = float(np.std(arm.hits, ddof=1)) if len(arm.hits) > 1 else None
        low, high, _, note = _bounds(arm.accuracy_interval)
        rows.append((None, name, "accuracy", arm.accuracy, low, high, spread, note, arm.n + arm.n_missing, 0))
    names = ("draw", "method", "metric", "value", "low", "high", "sd", "note", "n", "n_missing")
    columns: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    columns["void"] = [bool(summary.void)] * len(rows)
    return columns


def _bounds(interval: Interval) -> tuple[float, float, None, str]:
    return interval.low, interval.high, None, interval.note


def users_columns(draws: PersonalizationDraws) -> dict[str, Sequence[Any]]:
    """Return the columns of `users.parquet`: a row per test user, draw and arm: response given and both rewards."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("user", "draw", "method", "response", "reward", "neutral", "hit")
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
            columns["hit"] += arm.hit.tolist()
    return dict(columns)
