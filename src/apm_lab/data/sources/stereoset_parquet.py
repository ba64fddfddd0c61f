"""StereoSet as the hub has it (McGill-NLP/stereoset): a parquet file a half, rows as in the official file.

There an item's sentences are one struct of parallel lists, and labels are numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apm_lab.errors import DataError

__all__ = ["parquet_files", "parquet_rows"]

_LABELS = ("anti-stereotype", "stereotype", "unrelated")  # the order of the hub's ClassLabel
_COLUMNS = ("id", "target", "bias_type", "context", "sentences")


def parquet_files(folder: Path, half: str) -> list[Path]:
    """Return the parquet files under the folder that lie in one named as the half, or are named after it, in order."""
    return sorted(
        file for file in folder.rglob("*.parquet") if any(half in part for part in file.relative_to(folder).parts)
    )


def parquet_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows in the official file's form; DataError where it can't be read or lacks a column."""
    import pyarrow
    import pyarrow.parquet as reader

    try:
        rows: list[dict[str, Any]] = reader.read_table(file, columns=list(_COLUMNS)).to_pylist()
    except (OSError, ValueError, KeyError, pyarrow.ArrowException) as fault:
        raise DataError(f"{file} can't be read: {str(fault).partition(chr(10))[0]:.200}") from None
    missing = [column for column in _COLUMNS if rows and column not in rows[0]]
    if missing:
        raise DataError(f"{file}: no column {', '.join(missing)}; expected {', '.join(_COLUMNS)}")
    return [{**row, "sentences": _sentences(row["sentences"], f"{file}, row {n}")} for n, row in enumerate(rows, 1)]


def _sentences(told: object, where: str) -> list[dict[str, Any]]:
    """Return the sentences one by one with the labels' names."""
    if isinstance(told, dict):
        texts, labels = told.get("sentence"), told.get("gold_label")
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
            raise DataError(f"{where}: expected sentences with as many gold labels")
        told = [{"sentence": text, "gold_label": label} for text, label in zip(texts, labels, strict=True)]
    if not isinstance(told, list):
        raise DataError(f"{where}: expected sentences")
    return [{**each, "gold_label": _label(each.get("gold_label"), where)} for each in told]


def _label(label: object, where: str) -> str:
    if isinstance(label, str):
        return label
    if not isinstance(label, int) or not 0 <= label < len(_LABELS):
        raise DataError(f"{where}: gold_label is {label!r}, expected 0 to {len(_LABELS) - 1}")
    return _LABELS[label]
