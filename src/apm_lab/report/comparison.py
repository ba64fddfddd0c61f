"""Methods side by side: the figures of several runs on the same users and draws, and a paired test of every two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.judging.health import Health
from apm_lab.maths.inference import METRICS
from apm_lab.maths.paired import Comparison
from apm_lab.report.personalization import ArmSummary, Summary, arm_summary, paired
from apm_lab.studies.arms import ArmDraw
from apm_lab.studies.evaluation import ORACLE, TWIN
from apm_lab.studies.personalization import PersonalizationDraws

__all__ = ["UNADJUSTED", "MethodRun", "SideBySide", "side_by_side", "side_by_side_columns"]

UNADJUSTED = "not adjusted for the number of comparisons"

_UNUSED = Health(auc={}, pearson=None, unchecked=(), n=0, n_missing=0)


@dataclass(frozen=True, slots=True)
class MethodRun:
    """What one method did in a finished run: one `ArmDraw` per draw, and whether that run was void or ill judged."""

    name: str
    draws: Sequence[ArmDraw]
    void: bool = False
    unhealthy: bool = False


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The methods in the order of APM Table 1, and `pairs`: (later, earlier) with the difference later less earlier.

    `void` and `unhealthy` name the methods whose runs were flagged so.
    """

    arms: dict[str, ArmSummary]
    pairs: dict[tuple[str, str], Comparison]
    void: tuple[str, ...]
    unhealthy: tuple[str, ...]

    def significant(self, pair: tuple[str, str]) -> bool:
        """Return whether two methods differ; one of a void run differs from nothing."""
        return self.pairs[pair].significant and not set(pair) & set(self.void)

    @property
    def summary(self) -> Summary:
        """The methods as arms of one table, none of which is the table's own."""
        return Summary("", self.arms, {}, (), ())


def side_by_side(runs: Sequence[MethodRun], blocks: NDArray[np.int64], seed: int) -> SideBySide:
    """Return the figures of methods (each once) on the same users and draws, whose blocks are (D,).

    Every figure is a single run's, by the same functions. Pairs are compared on the users known to both.
    """
    arms = [{run.name: run.draws[draw] for run in runs} for draw in range(len(blocks))]
    draws = PersonalizationDraws("", arms, blocks, (), _UNUSED, ())
    found = {run.name: arm_summary(draws, run.name, seed) for run in runs}
    order = sorted(found, key=lambda name: _place(found[name]))
    pairs = {(b, a): paired(draws, b, a, seed) for a, b in combinations(order, 2)}
    void = {run.name for run in runs if run.void}
    unhealthy = {run.name for run in runs if run.unhealthy}
    flagged = [tuple(name for name in order if name in names) for names in (void, unhealthy)]
    return SideBySide({name: found[name] for name in order}, pairs, flagged[0], flagged[1])


def _place(arm: ArmSummary) -> tuple[bool, bool, float, str]:
    """Return the sort key: non-personalized first, the oracle last, the others by Delta."""
    delta = arm.spread("delta")[0]
    return arm.name != TWIN, arm.name == ORACLE, -math.inf if math.isnan(delta) else delta, arm.name


_COLUMNS = ("method", "other", "metric", "value", "low", "high", "sd", "significant", "p", "note", "n", "n_missing")


def side_by_side_columns(table: SideBySide, **given: object) -> dict[str, list[Any]]:
    """Return a row per method and metric (`other` null), then one per pair: the difference in Delta of `method` less.

    `given` stands in every row; `void` and `unhealthy` say so of the method's run, or of either of a pair.
    """
    rows = [*_method_rows(table), *_pair_rows(table)]
    columns: dict[str, list[Any]] = {name: [value] * len(rows) for name, value in given.items()}
    columns |= {name: [row.get(name) for row in rows] for name in _COLUMNS}
    named = [{row["method"], row["other"]} for row in rows]
    for name, flagged in (("void", table.void), ("unhealthy", table.unhealthy)):
        columns[name] = [bool(both & set(flagged)) for both in named]
    return columns


def _method_rows(table: SideBySide) -> Iterator[Mapping[str, Any]]:
    for arm in table.arms.values():
        head = {"method": arm.name, "other": None}
        for metric in METRICS:
            (mean, deviation), interval = arm.spread(metric), arm.intervals[metric]
            bounds = {"low": interval.low, "high": interval.high, "note": interval.note}
            counted = {"n": arm.n, "n_missing": arm.n_missing}
            yield {**head, "metric": metric, "value": mean, "sd": deviation, **bounds, **counted}
        if arm.accuracies is not None and arm.accuracy_interval is not None:
            seen = arm.accuracy_interval
            bounds = {"low": seen.low, "high": seen.high, "note": seen.note}
            missing = arm.n + arm.n_missing - arm.answered
            figure = {"metric": "accuracy", "value": arm.accuracy, "n": arm.answered, "n_missing": missing}
            deviation = float(np.std(arm.accuracies, ddof=1)) if len(arm.accuracies) > 1 else math.nan
            yield {**head, **figure, "sd": deviation, **bounds}


def _pair_rows(table: SideBySide) -> Iterator[Mapping[str, Any]]:
    for (name, other), found in table.pairs.items():
        interval, flips = found.interval, found.sign_flip
        yield {
            "method": name,
            "other": other,
            "metric": "delta",
            "value": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "significant": table.significant((name, other)),
            "p": flips.p,
            "note": "; ".join(filter(None, (interval.note, f"sign flips: {flips.note}", UNADJUSTED))),
        }
