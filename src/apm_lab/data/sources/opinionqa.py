"""OpinionQA: survey questions with ordered answers, and how groups of people answered them.

Official files: CodaLab worksheet 0x6fb693719477478aac73fc07db333f69 (Santurkar et al. 2023), questions and answers of
Pew Research Center's American Trends Panel; no licence is stated with the set. Answer counts by group: the release of
Meister et al. (2024), unweighted.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.json_lines import json_file
from apm_lab.errors import DataError

__all__ = ["GroupCounts", "OpinionQuestion", "group_counts", "read_questions"]

_CSV_FIELD = 2**22


@dataclass(frozen=True, slots=True)
class OpinionQuestion:
    """One survey question. `choices` are the substantive answers in the survey's order, `refusals` all others.

    `ordinals` are the survey's own positions of the choices: often not 1..N, and not in file order; all equal where the
    answers have no order, and then there is no distance between them. `key` names the question in the survey; a few
    keys are asked several times about different things, so `id` adds the row where that is so.
    """

    id: str
    key: str
    text: str
    choices: tuple[str, ...]
    ordinals: tuple[float, ...]
    refusals: tuple[str, ...]


def read_questions(file: Path | str) -> list[OpinionQuestion]:
    """Return the questions of a survey's `info.csv`, in order; DataError names file, line and fault."""
    path = Path(file)
    rows = _rows(path)
    keys = [row["key"] for row in rows]
    return [
        _question(
            row, f"{row['key']}#{keys[:place].count(row['key']) + 1}" if keys.count(row["key"]) > 1 else None, where
        )
        for place, (row, where) in enumerate((row, f"{path}, row {number}") for number, row in enumerate(rows, 1))
    ]


def _rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(_CSV_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(csv.DictReader(handle, strict=True))
    except FileNotFoundError:
        raise DataError(f"data file {path} does not exist; give the survey's folder with dataset.path=...") from None
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise DataError(f"{path} can't be read: {fault}") from None
    missing = {"key", "question", "references", "option_ordinal"} - set(rows[0] if rows else ())
    if missing:
        raise DataError(f"{path}: no column {', '.join(sorted(missing))}; expected an OpinionQA info.csv")
    return rows


def _question(row: Mapping[str, str], name: str | None, where: str) -> OpinionQuestion:
    labels, ordinals = _literal(row, "references", str, where), _literal(row, "option_ordinal", float, where)
    if not row["key"] or not (row["question"] or "").strip():
        raise DataError(f"{where}: key or question is empty")
    if not 0 < len(ordinals) <= len(labels) or len(set(labels)) < len(labels):
        raise DataError(
            f"{where}: {len(ordinals)} ordinals for {len(labels)} answers, which must differ and be no fewer"
        )
    # The authors' rule: answers beyond the ordinals are refusals ("Not sure" among them).
    return OpinionQuestion(
        name or row["key"],
        row["key"],
        row["question"].strip(),
        tuple(labels[: len(ordinals)]),
        tuple(ordinals),
        tuple(labels[len(ordinals) :]),
    )


def _literal(row: Mapping[str, str], column: str, kind: type, where: str) -> list[Any]:
    """Return the Python list that a cell holds as text, of texts or of finite numbers."""
    try:
        found = ast.literal_eval(row[column] or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if isinstance(found, list) and kind is float and all(type(each) in (int, float) for each in found):
        found = [float(each) for each in found]
    sound = isinstance(found, list) and all(isinstance(each, kind) for each in found)
    if not sound or (kind is float and not np.isfinite(found).all()):
        raise DataError(f"{where}: {column} is {row[column]!r:.60}, expected a list of {kind.__name__}")
    return list(found or ())


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How many people of each group gave each answer: `counts` (G, Q, K), zero beyond a question's choices.

    `refused` (G, Q) counts refusals, `asked` (Q,) says which questions the release holds.
    """

    trait: str
    groups: tuple[str, ...]
    counts: NDArray[np.float64]
    refused: NDArray[np.float64]
    asked: NDArray[np.bool_]

    @property
    def answered(self) -> NDArray[np.float64]:
        """How many of each group answered each question (G, Q)."""
        found: NDArray[np.float64] = self.counts.sum(axis=2)
        return found


def group_counts(file: Path | str, questions: Sequence[OpinionQuestion]) -> GroupCounts:
    """Return the answers to `questions` by group from a `<TRAIT>_data.json` (or `.json.gz`).

    Labels and their order are the questions' own: the release's lists were split at commas. It has one entry a key; of
    a key that is asked several times it is for the question whose text it has. DataError for an answer that is none of
    a question's labels.
    """
    path = Path(file)
    content = _json(path)
    names = ("question_text", "MC_options")
    groups = sorted({name for entry in content.values() for name in entry if name not in names})
    width = max((len(question.choices) for question in questions), default=0)
    counts = np.zeros((len(groups), len(questions), width))
    refused, asked = np.zeros(counts.shape[:2]), np.zeros(len(questions), dtype=bool)
    for place, question in enumerate(questions):
        entry = content.get(question.key)
        if entry is None or entry.get("question_text", "").strip() != question.text:
            continue
        asked[place] = True
        for row, group in enumerate(groups):
            for label, count in entry.get(group, {}).items():
                where = f"{path}, {question.key}, {group}"
                if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count < float("inf"):
                    raise DataError(f"{where}: {label!r:.40} counts {count!r:.20}, expected a number of people")
                if label in question.choices:
                    counts[row, place, question.choices.index(label)] += count
                elif label in question.refusals:
                    refused[row, place] += count
                else:
                    raise DataError(f"{where}: {label!r:.60} is no answer to this question")
    return GroupCounts(path.name.partition("_data.json")[0], tuple(groups), counts, refused, asked)


def _json(path: Path) -> dict[str, dict[str, Any]]:
    content = json_file(path)
    if not isinstance(content, dict) or not all(isinstance(entry, dict) for entry in content.values()):
        raise DataError(f"{path}: expected an object of objects, by question key")
    for key, entry in content.items():
        for name, told in entry.items():
            kind, expected = (str, "a text") if name == "question_text" else (dict, "an object of counts")
            if name != "MC_options" and not isinstance(told, kind):
                raise DataError(f"{path}, {key}: {name} is {told!r:.40}, expected {expected}")
    return content
