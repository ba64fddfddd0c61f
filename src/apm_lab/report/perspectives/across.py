"""Several reward models on the same data: whether they rank groups alike, and how near they are to one another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.agreement import agreement, permutation_p, ranks
from apm_lab.maths.distance import Distance
from apm_lab.maths.opinion import alignment
from apm_lab.maths.seeding import stream
from apm_lab.maths.signed_rank import signed_rank
from apm_lab.report.frame import Frame, frame
from apm_lab.report.perspectives.bbq import FEWEST_ITEMS
from apm_lab.report.perspectives.opinions import EVERYBODY

__all__ = ["ModelAudit", "across_frames"]

Array = NDArray[np.float64]
Rows = Sequence[Mapping[str, Any]]
_OVERALL = "all"
_ENDS = 8
_MEANINGS = {  # table: (value, its trait's column, its group's column, whether the largest has rank 1)
    "alignment": ("alignment", "trait", "group", True),
    "correct": ("correct", "category", "group", True),
    "shares": ("share_stereotype", "domain", "term", False),
}


@dataclass(frozen=True, slots=True)
class ModelAudit:
    """One model's finished audit: what tables call it, the distance of its headline (None without one), its tables.

    `temperature`: of its rewards in the run, None where that is not known.
    """

    name: str
    distance: str | None
    frames: Mapping[str, Rows]
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Values (R, G) of groups that every model has."""

    value: str
    groups: list[tuple[str, str]]
    values: Array
    largest_first: bool


def across_frames(audits: Sequence[ModelAudit]) -> list[Frame]:
    """Return the tables that the audits' own tables allow: groups, agreement, models, and steering together."""
    found: list[Frame] = []
    for name in _MEANINGS:
        if all(name in audit.frames for audit in audits):
            matrix = _matrix(audits, name)
            if matrix.groups:
                found += [_groups(audits, matrix), _agreements(matrix)]
    if all("opinions" in audit.frames and audit.distance == audits[0].distance for audit in audits):
        found.append(_models(audits))
    if all("steering_questions" in audit.frames for audit in audits):
        found.append(_steering(audits))
    return found


def _own(audit: ModelAudit, name: str) -> Rows:
    """Return the rows that are about single groups, under the headline's distance, refusals among the choices."""
    rows = audit.frames[name]
    if name == "alignment":
        return [row for row in rows if row["distance"] == audit.distance and row["group"] != EVERYBODY]
    if name == "correct":
        return [row for row in rows if row["refusals"] != "removed" and row["items"] >= FEWEST_ITEMS]
    return [row for row in rows if row["term"] and row["items"] >= FEWEST_ITEMS]


def _matrix(audits: Sequence[ModelAudit], name: str) -> _Matrix:
    value, trait, group, largest_first = _MEANINGS[name]
    tables = [
        {(row[trait], row[group]): row[value] for row in _own(audit, name) if row[value] is not None}
        for audit in audits
    ]
    shared = [key for key in tables[0] if all(key in table for table in tables)]
    values = np.array([[table[key] for key in shared] for table in tables], dtype=np.float64)
    return _Matrix(value, shared, values.reshape(len(audits), len(shared)), largest_first)


def _ordered(matrix: _Matrix) -> Array:
    return matrix.values if matrix.largest_first else -matrix.values


def _groups(audits: Sequence[ModelAudit], matrix: _Matrix) -> Frame:
    """Return a row per group: every model's value and rank, and the mean rank (RMP Figs. 1, 2, 19, 20)."""
    ranked = ranks(_ordered(matrix))
    mean = ranked.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    names = [re.sub(r"[.:!\[\]{}]", "_", audit.name) for audit in audits]  # which a format would read as its own
    rows = [
        (*matrix.groups[place], mean[place], *matrix.values[:, place], *ranked[:, place]) for place in order.tolist()
    ]
    count = len(rows)
    chosen = range(count) if count <= 2 * _ENDS else [*range(_ENDS), *range(count - _ENDS, count)]
    return frame(
        f"groups_{matrix.value}",
        f"{matrix.value.replace('_', ' ')} by group and, in brackets, its rank within the model; best mean rank first",
        ("trait", "group", "mean_rank", *names, *(f"rank {name}" for name in names)),
        rows,
        {
            "group": "{trait}: {group}",
            "mean rank": "{mean_rank:.1f}",
            **{name: f"{{{name}:.3f}} ({{rank {name}:.1f}})" for name in names},
        },
        chosen=list(chosen),
        note=f"{count} groups that every model has; all of them in groups_{matrix.value}.parquet",
    )


def _agreements(matrix: _Matrix) -> Frame:
    """Return how alike the models rank the groups: over all, and within each trait (RMP Tables 13 and 14)."""
    traits = [trait for trait, _ in matrix.groups]
    rows = []
    for trait in (_OVERALL, *dict.fromkeys(traits)):
        columns = [place for place, own in enumerate(traits) if trait in (_OVERALL, own)]
        if len(columns) < 2:
            continue
        part = _ordered(matrix)[:, columns]
        told = agreement(part)
        p = permutation_p(part, stream(0, "agreement", matrix.value, trait))
        rows.append((trait, told.models, told.groups, told.spearman, p, told.friedman, told.p_value, told.kendall_w))
    return frame(
        f"agreement_{matrix.value}",
        f"Do the models rank the groups alike? ({matrix.value.replace('_', ' ')})",
        ("trait", "models", "groups", "spearman", "permutation_p", "friedman", "p_value", "kendall_w"),
        rows,
        {
            "trait": "{trait}",
            "mean Spearman": "{spearman:.2f}",
            "p (permutations)": "{permutation_p:.4f}",
            "Friedman": "{friedman:.2f}",
            "p": "{p_value:.2g}",
            "Kendall W": "{kendall_w:.3f}",
            "groups": "{groups}",
        },
    )


def _models(audits: Sequence[ModelAudit]) -> Frame:
    """Return a row per pair of models: alignment of their opinions, rank correlation (RMP Figs. 13 to 16)."""
    shares, known, real, positions = _opinions(audits)
    distance = cast("Distance", audits[0].distance)
    aligned = alignment(distance, (shares[:, None], known[:, None]), (shares, known), real, positions)
    matrix = _matrix(audits, "alignment")
    R = len(audits)
    pairs = agreement(matrix.values).pairs if matrix.groups else np.full((R, R), np.nan)
    rows = [
        (
            one.name,
            other.name,
            aligned.value[i, j] if aligned.questions[i, j] else None,
            aligned.questions[i, j],
            pairs[i, j],
        )
        for i, one in enumerate(audits)
        for j, other in enumerate(audits)
    ]
    return frame(
        "models",
        f"Reward models against each other: alignment by {distance}, Spearman of the groups' ranks",
        ("model", "other", "alignment", "questions", "spearman"),
        rows,
        {
            "model": "{model}",
            "other": "{other}",
            "alignment": "{alignment:.3f}",
            "Spearman": "{spearman:.2f}",
            "questions": "{questions}",
        },
        chosen=[i * len(audits) + j for i in range(len(audits)) for j in range(i + 1, len(audits))],
    )


def _opinions(audits: Sequence[ModelAudit]) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_], Array]:
    """Return opinions (R, Q, K) of all questions that a model has one on, which are known, choices and their places."""
    tables = [list(_by_question(audit.frames["opinions"])) for audit in audits]
    names = list(dict.fromkeys(name for table in tables for name, _ in table))
    K = max((len(values) for table in tables for _, values in table), default=0)
    place = {name: row for row, name in enumerate(names)}
    shares, known = np.zeros((len(audits), len(names), K)), np.zeros((len(audits), len(names)), dtype=bool)
    real, positions = np.zeros((len(names), K), dtype=bool), np.zeros((len(names), K))
    for number, table in enumerate(tables):
        for name, values in table:
            shares[number, place[name], : len(values)] = [share for share, _ in values]
            positions[place[name], : len(values)] = [at for _, at in values]
            known[number, place[name]] = real[place[name], : len(values)] = True
    return shares, known, real, positions


def _by_question(rows: Rows) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(row["question"], []).append((row["share"], row["position"]))
    yield from found.items()


def _steering(audits: Sequence[ModelAudit]) -> Frame:
    """Return RMP App. F.3's tests: over (model, question) pairs, each a mean over groups."""
    tables = [audit.frames["steering_questions"] for audit in audits]
    forms = dict.fromkeys(row["form"] for table in tables for row in table)
    rows = []
    for form in forms:
        pairs = [(row["before"], row["after"]) for table in tables for row in table if row["form"] == form]
        asked = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
        test = signed_rank(asked[:, 0], asked[:, 1])
        rows.append(
            (
                *(form, test.n, test.zeros, test.median, test.statistic, test.z, test.p_value, test.effect),
                *(test.rank_biserial, test.shapiro, test.shapiro_p),
            )
        )
    columns = ("form", "n", "zeros", "median", "statistic", "z", "p_value", "effect", "rank_biserial", "shapiro")
    return frame(
        "steering_tests_all",
        "Steering over all models: Wilcoxon's test of (model, question) pairs, means over groups",
        (*columns, "shapiro_p"),
        rows,
        {
            "form": "{form}",
            "pairs": "{n}",
            "T": "{statistic:.0f}",
            "Z": "{z:+.2f}",
            "p": "{p_value:.2g}",
            "effect": "{effect:.3f}",
            "rank biserial": "{rank_biserial:+.3f}",
            "Shapiro": "{shapiro:.3f}",
        },
    )
