"""A run's figures in CSV files of its own folder."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["Cell", "CsvTracker"]

Cell = str | int | float | bool | None


class CsvTracker:
    """Writes `metrics.csv` (long: step, name, value), `tables/<name>.csv` and `summary.json` into `folder`.

    Every call is on disk when it returns. A run that continues appends, after the last whole line. Raises OSError, with
    the file's name, when the folder can't be written (a full disk apart, `Trackers` turns that into a warning).
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: IO[str] | None = None
        self._summary: dict[str, Cell] = {}

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Append one line per figure, an empty step where there is none."""
        path = self._folder / "metrics.csv"
        try:
            with _named(path):
                self._file = self._file or _appending(path)
                writer = csv.writer(self._file)
                place = "" if step is None else step
                writer.writerows((place, name, repr(float(value))) for name, value in metrics.items())
                self._file.flush()
        except OSError:
            self.finish()
            raise

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write `tables/<name>.csv`, whole or not at all."""
        path = self._folder / "tables" / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with _named(path), partial.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([columns, *rows])
        partial.replace(path)

    def summary(self, figures: dict[str, Cell]) -> None:
        """Rewrite `summary.json` with these figures added."""
        self._summary.update(figures)
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / "summary.json.partial"
        with _named(self._folder / "summary.json"):
            partial.write_text(json.dumps(self._summary, indent=1, sort_keys=True), encoding="utf-8")
        partial.replace(self._folder / "summary.json")

    def finish(self, exit_code: int = 0) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # what could not be flushed was raised where it was logged
                self._file.close()
            self._file = None


def _appending(path: Path) -> IO[str]:
    """Return the CSV open at its end, without a line that a full disk cut off, and with its head."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    file = path.open("a", newline="", encoding="utf-8")
    if file.tell() == 0:
        csv.writer(file).writerow(("step", "name", "value"))
    return file


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file that was written, which the system doesn't."""
    try:
        yield
    except OSError as fault:
        fault.filename = fault.filename or str(path)
        raise
