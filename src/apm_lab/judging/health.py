"""Judge health: whether a judge can tell a style from its opposite, on texts that no model of ours wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import JudgeError
from apm_lab.judging.balance import correlation, imbalance
from apm_lab.judging.judge import Judge

__all__ = ["Health", "health_set", "measure_health", "require_health"]

LEAST_MEAN_AUC, LEAST_AUC, MOST_PEARSON = 0.85, 0.65, -0.3


@dataclass(frozen=True, slots=True)
class Health:
    """AUC per principle (follow texts rated above avoid texts), pooled Pearson(s+, s-), and what was not checked.

    `mute` are the principles on whose follow or avoid texts there is no verdict at all; they have no AUC. `pearson` is
    None without any verdict, and 0 for answers that never move, which counts as unhealthy. `imbalance` is the pooled
    mean of |s+ + s- - 11|, `pearsons` the correlation per principle. A `mirrored` judge has s- = 11 - s+ by
    construction, and none of these three.
    """

    auc: dict[str, float]
    pearson: float | None
    unchecked: tuple[str, ...]
    n: int
    n_missing: int
    mute: tuple[str, ...] = ()
    imbalance: float | None = None
    pearsons: dict[str, float] = field(default_factory=dict)
    mirrored: bool = False

    @property
    def faults(self) -> list[str]:
        """What is wrong, in words; empty for a healthy judge."""
        faults = [f"it gave no verdict on the texts for '{name}'" for name in self.mute]
        faults += [
            f"AUC on '{name}' is {auc:.2f}, below {LEAST_AUC}" for name, auc in self.auc.items() if auc < LEAST_AUC
        ]
        mean = float(np.mean(list(self.auc.values()))) if self.auc else 1.0
        if mean < LEAST_MEAN_AUC:
            faults.append(f"mean AUC is {mean:.2f}, below {LEAST_MEAN_AUC}")
        if self.pearson is not None and self.pearson > MOST_PEARSON:
            faults.append(f"Pearson(s+, s-) is {self.pearson:+.2f}, above {MOST_PEARSON}")
        return faults


@cache
def health_set() -> dict[str, dict[str, list[str]]]:
    """Return the shipped, hand-written texts: principle key -> `follow` and `avoid` -> 12 texts each."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parsed: dict[str, Any] = yaml.load(
        files("apm_lab.judging").joinpath("health_set.yaml").read_text(encoding="utf-8"), loader
    )
    return parsed


def measure_health(judge: Judge) -> Health:
    """Return the judge's figures on the health set, for those of its principles that the set covers."""
    auc: dict[str, float] = {}
    mute: list[str] = []
    pairs: dict[str, NDArray[np.float32]] = {}
    asked = missing = 0
    for place, name in enumerate(judge.principles):
        if name not in health_set():
            continue
        texts = health_set()[name]
        (plus, plus_known), (minus, minus_known) = judge.ratings([*texts["follow"], *texts["avoid"]], place)
        follows = np.arange(len(plus)) < len(texts["follow"])
        area = area_under_curve(plus[follows & plus_known], plus[~follows & plus_known])
        if area is None:
            mute.append(name)
        else:
            auc[name] = area
        both = plus_known & minus_known
        pairs[name] = np.stack([plus[both], minus[both]])
        sides = [plus_known] if judge.mirrored else [plus_known, minus_known]
        asked += sum(len(known) for known in sides)
        missing += sum(int((~known).sum()) for known in sides)
    unchecked = tuple(name for name in judge.principles if name not in health_set())
    if judge.mirrored:
        return Health(auc, None, unchecked, asked, missing, tuple(mute), mirrored=True)
    pooled = np.concatenate(list(pairs.values()), axis=1) if pairs else np.zeros((2, 0), np.float32)
    each = {name: correlation(*pair) for name, pair in pairs.items()}
    known = {name: pearson for name, pearson in each.items() if pearson is not None}
    return Health(
        auc, correlation(*pooled), unchecked, asked, missing, tuple(mute), imbalance=imbalance(*pooled), pearsons=known
    )


def require_health(health: Health, allow_unhealthy: bool) -> None:
    """Raise JudgeError naming every fault, unless the user goes on all the same."""
    if health.faults and not allow_unhealthy:
        raise JudgeError(
            "the judge failed its health check: "
            + "; ".join(health.faults)
            + ". Nothing was spent. Take another judge, "
            "or go on with judge.allow_unhealthy=true (flagged everywhere)"
        )


def area_under_curve(above: NDArray[np.float32], below: NDArray[np.float32]) -> float | None:
    """Return P(a > b) + P(a = b) / 2 over all pairs, None when either side is empty."""
    if not len(above) or not len(below):
        return None
    difference = above[:, None] - below[None, :]
    return float((difference > 0).mean() + (difference == 0).mean() / 2)
