"""StereoSet: a context with a stereotyped, an anti-stereotyped and an unrelated continuation or filling.

Official file: repository moinnadeem/StereoSet, `data/dev.json`, CC BY-SA 4.0 (Nadeem et al. 2021). Its two halves hold
2,123 and 2,106 items, together the 4,229 that RMP counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from apm_lab.data.json_lines import json_file
from apm_lab.errors import ConfigError, DataError, did_you_mean

__all__ = ["BIAS_TYPES", "HALVES", "Half", "StereoSetItem", "read_stereoset"]

Half = Literal["intersentence", "intrasentence"]
HALVES: tuple[Half, ...] = get_args(Half)
BIAS_TYPES = ("gender", "profession", "race", "religion")
_LABELS = ("stereotype", "anti-stereotype", "unrelated")
_BLANK = "BLANK"


@dataclass(frozen=True, slots=True)
class StereoSetItem:
    """One context with its three sentences in the file's own (random) order.

    `stereotype`, `antistereotype` and `unrelated` are places among the sentences. Of the half `intersentence` a
    sentence follows the context; of `intrasentence` it is the context with its BLANK filled. Only `id` is unique: one
    sentence may stand in two items with different labels.
    """

    id: str
    half: Half
    bias_type: str
    target: str
    context: str
    sentences: tuple[str, ...]
    stereotype: int
    antistereotype: int
    unrelated: int


def read_stereoset(path: Path | str, halves: Sequence[Half] = HALVES) -> list[StereoSetItem]:
    """Return the items of the official file (`.json` or `.json.gz`) or of a folder with a `dev.json`, half after half.

    ConfigError for an unknown half, DataError naming the file, the half, the item's number and what is wrong with it.
    """
    for half in halves:
        if half not in HALVES:
            raise ConfigError(f"dataset.halves: StereoSet has no half {half!r}{did_you_mean(half, HALVES)}")
    file = _file(Path(path))
    data = _content(file)
    items = []
    for half in halves:
        rows = data.get(half)
        if not isinstance(rows, list):
            raise DataError(f"{file}: data.{half} is {rows!r:.40}, expected a list of items")
        items += [_item(row, half, f"{file}, {half} item {number}") for number, row in enumerate(rows, 1)]
    return items


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = next((path / name for name in ("dev.json", "dev.json.gz") if (path / name).is_file()), None)
    if found is None:
        raise DataError(f"{path} holds no dev.json or dev.json.gz; fetch StereoSet's, or name it: dataset.path")
    return found


def _content(file: Path) -> Mapping[str, Any]:
    content = json_file(file)
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise DataError(f"{file}: expected an object with data.intersentence and data.intrasentence")
    return data


def _item(row: object, half: Half, where: str) -> StereoSetItem:
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object, found {type(row).__name__}")
    for field in ("id", "target", "bias_type", "context"):
        if not isinstance(row.get(field), str):
            raise DataError(f"{where}: field {field!r} is {row.get(field)!r:.40}, expected a text")
    if row["bias_type"] not in BIAS_TYPES:
        raise DataError(f"{where}: bias_type is {row['bias_type']!r}, expected one of {', '.join(BIAS_TYPES)}")
    if half == "intrasentence" and _BLANK not in row["context"]:
        raise DataError(f"{where}: the context has no {_BLANK} to fill")
    sentences, labels = _sentences(row.get("sentences"), where)
    return StereoSetItem(
        id=row["id"],
        half=half,
        bias_type=row["bias_type"],
        target=row["target"].strip(),
        context=row["context"].strip(),
        sentences=sentences,
        **{name.replace("-", ""): labels.index(name) for name in _LABELS},
    )


def _sentences(rows: object, where: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the texts and gold labels, one of each kind: order in the file is random and says nothing."""
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("sentence"), str) and isinstance(row.get("gold_label"), str)
        for row in rows
    ):
        raise DataError(f"{where}: expected sentences with a text 'sentence' and a 'gold_label' each")
    labels = [row["gold_label"] for row in rows]
    if sorted(labels) != sorted(_LABELS):
        raise DataError(
            f"{where}: gold labels are {', '.join(labels) or 'none'}; expected each of {', '.join(_LABELS)}"
        )
    return tuple(row["sentence"].strip() for row in rows), labels
