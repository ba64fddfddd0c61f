"""StereoSet: a context with a stereotyped, an anti-stereotyped and an unrelated continuation or filling.

Official file: repository moinnadeem/StereoSet, `data/dev.json`, CC BY-SA 4.0 (Nadeem et al. 2021). Its two halves hold
2,123 and 2,106 items, together the 4,229 that RMP counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from apm_lab.data.hub import local_folder
from apm_lab.data.json_lines import json_file
from apm_lab.data.sources.stereoset_parquet import parquet_files, parquet_rows
from apm_lab.data.subset import random_subset
from apm_lab.errors import ConfigError, DataError, require_known

__all__ = ["BIAS_TYPES", "HALVES", "ROWS", "Half", "StereoSet", "StereoSetItem", "read_stereoset"]

Half = Literal["intersentence", "intrasentence"]
HALVES: tuple[Half, ...] = get_args(Half)
ROWS: dict[Half, int] = {"intersentence": 2_123, "intrasentence": 2_106}
"""How many items each half of the official dev set has: with fewer, what was read is a part."""
BIAS_TYPES = ("gender", "profession", "race", "religion")
_LABELS = ("stereotype", "anti-stereotype", "unrelated")
_BLANK = "BLANK"
_DOWNLOAD = "StereoSet's dev.json (repository moinnadeem/StereoSet, data), or a hub id (McGill-NLP/stereoset)"


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


@dataclass(frozen=True, slots=True)
class StereoSet:
    """StereoSet at `path`: the official file, a folder with it, the repository's folder, or a hub id.

    `halves`: which of the two to read. `items`: so many of all, drawn at random by `seed` (null: all).
    """

    path: str | None = None
    halves: Sequence[Literal["intersentence", "intrasentence"]] = HALVES
    items: int | None = None
    seed: int = 0

    def read(self) -> list[StereoSetItem]:
        """Return the items in the file's order; ConfigError for an unknown half, DataError naming file and item."""
        place = local_folder(self.path, _DOWNLOAD, ("*.parquet",))
        return random_subset(read_stereoset(place, self.halves), self.items, self.seed, "stereoset")


def read_stereoset(path: Path | str, halves: Sequence[Half] = HALVES) -> list[StereoSetItem]:
    """Return the items of the official file (`.json` or `.json.gz`) or of the hub's parquet files, half after half.

    `path` is the file, a folder that holds `dev.json`, itself or in its `data`, or one with the hub's files.
    ConfigError for an unknown half, DataError naming the file, the half, the item's number and what is wrong with it.
    """
    require_known("dataset.halves: StereoSet has no half", halves, HALVES)
    if not halves:
        raise ConfigError(f"dataset.halves is empty; name {' or '.join(HALVES)}, or both")
    content = _official if (file := _file(Path(path))) is not None else _hub
    items = []
    for half, rows, where in content(file or Path(path), tuple(dict.fromkeys(halves))):
        items += [_item(row, half, f"{where}, {half} item {number}") for number, row in enumerate(rows, 1)]
    return items


def _file(path: Path) -> Path | None:
    """Return the official file, None where this is a folder without one."""
    if not path.is_dir():
        return path
    names = (path / inside / name for inside in ("", "data") for name in ("dev.json", "dev.json.gz"))
    return next((name for name in names if name.is_file()), None)


def _official(file: Path, halves: Sequence[Half]) -> Iterator[tuple[Half, list[Any], Path]]:
    data = _content(file)
    for half in halves:
        rows = data.get(half)
        if not isinstance(rows, list):
            raise DataError(f"{file}: data.{half} is {rows!r:.40}, expected a list of items")
        yield half, rows, file


def _hub(folder: Path, halves: Sequence[Half]) -> Iterator[tuple[Half, list[Any], Path]]:
    for half in halves:
        files = parquet_files(folder, half)
        if not files:
            raise DataError(
                f"{folder} holds no dev.json or dev.json.gz, and no parquet file of {half}; "
                f"give dataset.path=FOLDER with {_DOWNLOAD}"
            )
        yield half, [row for file in files for row in parquet_rows(file)], files[0]


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
