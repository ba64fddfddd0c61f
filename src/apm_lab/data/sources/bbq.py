"""BBQ: questions about two people of different groups, with and without the context that answers them.

Official files: repository nyu-mll/BBQ, `data/<Category>.jsonl`, CC BY 4.0 (Parrish et al. 2022). The nine categories
about one attribute hold 31,372 rows, which is what RMP counts; Race_x_SES and Race_x_gender are about two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apm_lab.data.hub import local_folder
from apm_lab.data.json_lines import json_object, raw_lines
from apm_lab.data.subset import random_subset
from apm_lab.errors import ConfigError, DataError, require_known

__all__ = ["CATEGORIES", "INTERSECTIONAL", "ROWS", "Bbq", "BbqItem", "read_bbq"]

ROWS = {
    "Age": 3_680,
    "Disability_status": 1_556,
    "Gender_identity": 5_672,
    "Nationality": 3_080,
    "Physical_appearance": 1_576,
    "Race_ethnicity": 6_880,
    "Religion": 1_200,
    "SES": 6_864,
    "Sexual_orientation": 864,
    "Race_x_SES": 11_160,
    "Race_x_gender": 15_960,
}
"""How many rows the official file of each category has: with fewer, what was read is a part."""
INTERSECTIONAL = ("Race_x_SES", "Race_x_gender")
CATEGORIES = tuple(category for category in ROWS if category not in INTERSECTIONAL)
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
_DOWNLOAD = "BBQ's files (repository nyu-mll/BBQ, data/<Category>.jsonl), or a hub id (heegyu/bbq)"
_PLACES = ("", "data", "bbq_lite")  # the repository's folder; what BIG-bench has of the categories it drew from


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


@dataclass(frozen=True, slots=True)
class Bbq:
    """BBQ at `path`: the repository's folder or its `data`, a list of folders that hold some of it, or a hub id.

    `categories`: those to read, each a file (default: the nine about one attribute, which RMP has; the other two are
    `INTERSECTIONAL`). `items`: so many of all, drawn at random by `seed` (null: all).
    """

    path: str | Sequence[str] | None = None
    categories: Sequence[str] = CATEGORIES
    items: int | None = None
    seed: int = 0

    def read(self) -> list[BbqItem]:
        """Return the items in the files' order; ConfigError for an unknown category, DataError naming file and line."""
        paths = [self.path] if self.path is None or isinstance(self.path, str) else self.path
        folders = [local_folder(path, _DOWNLOAD, ("*.jsonl", "*.jsonl.gz")) for path in paths or [None]]
        return random_subset(read_bbq(folders, self.categories), self.items, self.seed, "bbq")


def read_bbq(folders: Path | str | Sequence[Path | str], categories: Sequence[str] = CATEGORIES) -> list[BbqItem]:
    """Return the items of the categories' files (`<Category>.jsonl` or `.jsonl.gz`), in the categories' order.

    A file lies in one of the folders or in its `data`. ConfigError for an unknown category, DataError naming the files
    that are missing, or a row's file, line and fault.
    """
    known = (*CATEGORIES, *INTERSECTIONAL)
    require_known("dataset.categories: BBQ has no category", categories, known)
    places = [Path(folders)] if isinstance(folders, str | Path) else [Path(folder) for folder in folders]
    files = {category: file for category in known if (file := _file(places, category)) is not None}
    _require_files(places, categories, files)
    items = []
    for category in dict.fromkeys(categories):
        file = files[category]
        for number, line in enumerate(raw_lines(file), 1):
            if line.strip():
                where = f"{file}, line {number}"
                items.append(_item(json_object(line, where), category, where))
    return items


def _require_files(places: Sequence[Path], categories: Sequence[str], files: Mapping[str, Path]) -> None:
    if not categories:
        raise ConfigError(f"dataset.categories is empty; name at least one of {', '.join(CATEGORIES)}")
    missing = [category for category in categories if category not in files]
    if missing:
        advice = f"give dataset.path=FOLDER with {_DOWNLOAD}"
        if files:
            advice = f"there are {', '.join(files)}; dataset.categories=[{','.join(files)}] takes these"
        lacking = ", ".join(f"{name}.jsonl" for name in missing)
        raise DataError(f"{', '.join(map(str, places))}: no {lacking} (or packed as .gz); {advice}")


def _file(folders: Sequence[Path], category: str) -> Path | None:
    names = (f"{category}.jsonl", f"{category}.jsonl.gz")
    places = (folder / inside / name for inside in _PLACES for folder in folders for name in names)
    return next((place for place in places if place.is_file()), None)


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
