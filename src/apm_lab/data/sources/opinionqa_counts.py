"""OpinionQA from counts alone: how many of each group gave each answer, a file a trait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.sources.opinionqa import GroupCounts, OpinionQuestion, group_counts
from apm_lab.data.sources.opinionqa_files import SurveyFiles
from apm_lab.data.sources.opinionqa_tally import Tally
from apm_lab.errors import DataError
from apm_lab.records import Group

__all__ = ["HalvedCounts", "tally_counts"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HalvedCounts:
    """Two halves of each group's answers to each question, drawn without replacement: `counts` (G, Q, K)."""

    counts: Counts

    def __call__(self, rng: np.random.Generator, /) -> tuple[tuple[Array, Mask], tuple[Array, Mask]]:
        """Return per half the shares (G, Q, K) and which are there (G, Q): a multivariate hypergeometric draw."""
        left = self.counts.sum(axis=-1)
        wanted, half = left // 2, np.zeros_like(self.counts)
        # Choice after choice, as NumPy's method "marginals" does for one question at a time.
        for choice in range(self.counts.shape[-1]):
            here = self.counts[..., choice]
            half[..., choice] = rng.hypergeometric(here, left - here, wanted)
            left, wanted = left - here, wanted - half[..., choice]
        return _shares(half), _shares(self.counts - half)


def _shares(counts: Counts) -> tuple[Array, Mask]:
    total = counts.sum(axis=-1)
    return counts / np.maximum(total, 1)[..., None], total > 0


def tally_counts(
    survey: SurveyFiles, questions: Sequence[OpinionQuestion], values: Mapping[str, Sequence[str]]
) -> Tally:
    """Return how the groups of these traits answered, and all people: those of the trait with most answers.

    `values`: the groups of each trait; what the files hold besides is counted and forms none. Traits are never added
    up: they come from files whose totals differ. DataError for a trait without a file, and for parts of people.
    """
    files = {file.name.partition("_data.json")[0]: file for file in survey.counts}
    read = {}
    for trait in values:
        if trait not in files:
            raise DataError(f"{survey.folder}: no {trait}_data.json(.gz); of traits there are {', '.join(files)}")
        read[trait] = group_counts(files[trait], questions)
        if (read[trait].counts % 1).any() or (read[trait].refused % 1).any():
            raise DataError(f"{files[trait]}: counts are no whole numbers of people")
    whole = max(read, key=lambda trait: float(read[trait].counts.sum()))
    left_out: Counter[str] = Counter()
    groups, rows = [], []
    for trait, found in read.items():
        groups += [Group((trait,), (value,)) for value in values[trait]]
        rows += [_row(found, value) for value in values[trait]]
        for value in sorted(set(found.groups) - set(values[trait])):
            left_out[f"{trait} {value}: people of no group of the survey's"] += _people(*_row(found, value))
    shape = read[whole].counts.shape[1:]
    counts = np.array([row for row, _ in rows], dtype=np.int64).reshape(-1, *shape)
    refused = np.array([row for _, row in rows]).reshape(-1, shape[0])
    everyone = read[whole].counts.sum(axis=0)
    left_out["answer that is a refusal"] = int(read[whole].refused.sum())
    return Tally(
        groups=tuple(groups),
        shares=_shares(counts)[0],
        answered=counts.sum(axis=-1),
        refused=refused,
        overall=everyone / np.maximum(everyone.sum(axis=-1), 1)[..., None],
        overall_answered=everyone.sum(axis=-1).astype(np.int64),
        people=(counts.sum(axis=-1) + refused).max(axis=1, initial=0).astype(np.int64),
        halves=HalvedCounts(counts),
        told=f"answers counted by group, everyone from {whole}",
        left_out=left_out,
    )


def _row(found: GroupCounts, value: str) -> tuple[Array, Array]:
    """Return a group's counts (Q, K) and refusals (Q,), zero for one that the file does not have."""
    if value not in found.groups:
        return np.zeros_like(found.counts[0]), np.zeros_like(found.refused[0])
    place = found.groups.index(value)
    return found.counts[place], found.refused[place]


def _people(counts: Array, refused: Array) -> int:
    return int((counts.sum(axis=-1) + refused).max(initial=0))
