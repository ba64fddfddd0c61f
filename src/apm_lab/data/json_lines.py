"""JSON files, plain or gzipped: one object a line, or one value a file; every fault is named by file and line."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apm_lab.errors import DataError

__all__ = ["json_file", "json_object", "raw_lines"]


def raw_lines(file: Path) -> Iterator[bytes]:
    """Yield the file's lines by line feed alone, so that U+2028 and the like inside a text split nothing."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as handle:
            yield handle.readline().removeprefix(codecs.BOM_UTF8)
            yield from handle
    except FileNotFoundError:
        raise DataError(f"data file {file} does not exist; give its path with dataset.path=...") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError(f"{file} is no complete gzip file ({fault}); fetch it again") from None
    except OSError as fault:
        raise DataError(f"{file} can't be read: {fault.strerror or fault}") from None


def json_object(line: bytes, where: str) -> dict[str, Any]:
    """Return the line's object; DataError, beginning with `where`, for anything else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{where}: not a JSON object ({fault})") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(row).__name__}")
    return row


def json_file(file: Path) -> Any:  # noqa: ANN401 (whatever the file holds)
    """Return the value of a `.json` or `.json.gz` file; DataError naming the file where it is missing or damaged."""
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        return json.loads(raw)
    except FileNotFoundError:
        raise DataError(f"data file {file} does not exist; give its path with dataset.path=...") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError(f"{file} is no complete gzip file ({fault}); fetch it again") from None
    except OSError as fault:
        raise DataError(f"{file} can't be read: {fault.strerror or fault}") from None
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{file} is no JSON ({fault})") from None
