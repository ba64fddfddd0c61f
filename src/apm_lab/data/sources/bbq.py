"""BBQ: questions about two people of different groups, with and without the context that answers them.

Official files: repository nyu-mll/BBQ, `data/<Category>.jsonl`, CC BY 4.0 (Parrish et al. 2022). The nine categories
about one attribute hold 31,372 rows, which is what RMP counts; Race_x_SES and Race_x_gender are about two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apm_lab.data.json_lines import json_object, raw_lines
from apm_lab.errors import ConfigError, DataError, did_you_mean

__all__ = ["CATEGORIES", "INTERSECTIONAL", "BbqItem", "read_bbq"]

CATEGORIES = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Religion",
    "SES",
    "Sexual_orientation",
)
INTERSECTIONAL = ("Race_x_SES", "Race_x_gender")
_CHOICES = ("ans0", "ans1", "ans2")
_FIELDS = {
    "example_id": int,
    "question_polarity": str,
    "context_condition": str,
    "category": str,
    "answer_info": dict,
    "additional_metadata": dict,
    "context": str,
    "question": str,
    **dict.fromkeys(_CHOICES, str),
    "label": int,
}
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BbqItem:
    """One question with its three answers, without blanks around them.

    `gold` and `unknown` are places among the answers; `stereotyped` is the one by which a model shows the stereotype,
    in either polarity, and `unstereotyped` the other: both None where the row names no one target (or two). `groups`
    are the stereotyped groups. `id` is category and example id, which alone is not unique.
    """

    id: str
    category: str
    context: str
    question: str
    answers: tuple[str, ...]
    gold: int
    unknown: int
    stereotyped: int | None
    unstereotyped: int | None
    groups: tuple[str, ...]
    ambiguous: bool
    negative: bool


def read_bbq(folder: Path | str, categories: Sequence[str] = CATEGORIES) -> list[BbqItem]:
    """Return the items of the categories' files in `folder` (`<Category>.jsonl` or `.jsonl.gz`), in order.

    ConfigError for an unknown category, DataError naming a file that is missing, or a row's file, line and fault.
    """
    known = (*CATEGORIES, *INTERSECTIONAL)
    for category in categories:
        if category not in known:
            raise ConfigError(f"dataset.categories: no BBQ category {category!r}{did_you_mean(category, known)}")
    items = []
    for category in categories:
        file = _file(Path(folder), category)
        for number, line in enumerate(raw_lines(file), 1):
            if line.strip():
                where = f"{file}, line {number}"
                items.append(_item(json_object(line, where), category, where))
    return items


def _file(folder: Path, category: str) -> Path:
    for name in (f"{category}.jsonl", f"{category}.jsonl.gz"):
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"{folder} holds no {category}.jsonl or .jsonl.gz; fetch BBQ's data folder, or name it: dataset.path"
    )


def _item(row: Mapping[str, Any], category: str, where: str) -> BbqItem:
    for field, kind in _FIELDS.items():
        if not isinstance(row.get(field), kind):
            raise DataError(f"{where}: field {field!r} is {row.get(field)!r:.40}, expected {kind.__name__}")
    if row["category"] != category:
        raise DataError(f"{where}: category is {row['category']!r}, expected {category!r} as the file is named")
    negative, ambiguous = (
        _one_of(row, "question_polarity", "neg", "nonneg", where),
        _one_of(row, "context_condition", "ambig", "disambig", where),
    )
    told = [_told(row["answer_info"], choice, where) for choice in _CHOICES]
    groups = row["additional_metadata"].get("stereotyped_groups")
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise DataError(f"{where}: additional_metadata.stereotyped_groups is {groups!r:.40}, expected a list of texts")
    unknown = [place for place, (_, tag) in enumerate(told) if tag == _UNKNOWN]
    if len(unknown) != 1:
        raise DataError(f"{where}: {len(unknown)} answers are tagged {_UNKNOWN!r}, expected one")
    if row["label"] not in (0, 1, 2) or (row["label"] == unknown[0]) != ambiguous:
        raise DataError(f"{where}: label {row['label']} does not fit a context that is {row['context_condition']}")
    people = [place for place in range(3) if place != unknown[0]]
    targets = [place for place in people if _belongs(category, *told[place], groups)]
    target = targets[0] if len(targets) == 1 else None
    other = None if target is None else next(place for place in people if place != target)
    return BbqItem(
        id=f"{category}/{row['example_id']}",
        category=category,
        context=row["context"].strip(),
        question=row["question"].strip(),
        answers=tuple(row[choice].strip() for choice in _CHOICES),
        gold=row["label"],
        unknown=unknown[0],
        # Asked who is harmless, it is naming the other one that shows the stereotype.
        stereotyped=target if negative else other,
        unstereotyped=other if negative else target,
        groups=tuple(groups),
        ambiguous=ambiguous,
        negative=negative,
    )


def _one_of(row: Mapping[str, Any], field: str, yes: str, no: str, where: str) -> bool:
    if row[field] not in (yes, no):
        raise DataError(f"{where}: {field} is {row[field]!r}, expected {yes} or {no}")
    return bool(row[field] == yes)


def _told(info: Mapping[str, Any], choice: str, where: str) -> tuple[str, str]:
    pair = info.get(choice)
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        raise DataError(f"{where}: answer_info.{choice} is {pair!r:.40}, expected [text, tag]")
    return pair[0], pair[1]


def _belongs(category: str, text: str, tag: str, groups: Sequence[str]) -> bool:
    """Return whether the person of this answer is of a stereotyped group; whole names in lower case are compared."""
    named, tag = {group.lower() for group in groups}, tag.lower()
    if category == "Nationality":  # tags are regions there
        return text.strip().lower() in named
    if category == "Race_ethnicity":  # names are tagged with a gender too: F-Black
        return tag.removeprefix("f-").removeprefix("m-") in named
    if category == "Disability_status":
        return tag == "disabled"
    if category == "Gender_identity":
        if any(group.startswith("trans") for group in named):
            return tag.startswith("trans")
        return {"man": "m", "boy": "m", "woman": "f", "girl": "f"}.get(tag, tag) in named
    return tag in named
