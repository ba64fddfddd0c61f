"""The answers of a batch in a folder of JSONL files, found by the id of their call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apm_lab.errors import DataError

__all__ = ["BatchAnswers"]

_MOST_NAMED = 5


class BatchAnswers:
    """Where each answer lies in the files `answers*.jsonl`: only places are held in memory, texts are read when asked.

    Lines that can't be used are counted and named, and their calls go out again: a line that is no JSON object or has
    no `custom_id` (the last line of a file that is still being copied is cut short), an error in place of an answer, a
    status that is not 200. Where a call has several answers the first one counts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}
        self._clear()

    def _clear(self) -> None:
        self._places: dict[bytes, tuple[tuple[Path, int], ...]] = {}
        self._failed: dict[bytes, int] = {}
        self._refused, self._first_refusal = 0, ""
        self._damaged: list[str] = []
        self._cut: list[str] = []

    def refresh(self) -> None:
        """Read the files again where any has changed."""
        files = sorted(self._folder.glob("answers*.jsonl"))
        now = {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
        if now != self._seen:
            self._clear()
            for file in files:
                self._index(file)
            self._seen = now

    def bodies(self, key: bytes) -> Iterator[Mapping[str, Any]]:
        """Yield the answers to a call, in the order of files and lines."""
        for file, offset in self._places.get(key, ()):
            with file.open("rb") as handle:
                handle.seek(offset)
                body: Mapping[str, Any] = json.loads(handle.readline())["response"]["body"]
                yield body

    def failures(self, key: bytes) -> int:
        """Return how often a call came back without a usable answer."""
        return self._failed.get(key, 0)

    def unusable(self, key: bytes, why: str) -> None:
        """Count an answer that is no text."""
        self._refused += 1
        self._first_refusal = self._first_refusal or why
        self._failed[key] = self._failed.get(key, 0) + 1
        self._places[key] = self._places.get(key, ())[1:]

    def told(self) -> str:
        """Return what could not be used of the answers, to follow a sentence; empty where all could."""
        parts = []
        if self._refused:
            parts.append(f"{self._refused} answers are errors, the first: {self._first_refusal}")
        if self._damaged:
            named = ", ".join(self._damaged[:_MOST_NAMED])
            more = f" and {len(self._damaged) - _MOST_NAMED} more" if len(self._damaged) > _MOST_NAMED else ""
            parts.append(f"{len(self._damaged)} lines are no answers: {named}{more}")
        if self._cut:
            parts.append(f"partly imported, the last line is cut short: {', '.join(self._cut)}")
        return "".join(f"\n  {part}" for part in parts)

    def _index(self, file: Path) -> None:
        offset = 0
        try:
            with file.open("rb") as handle:
                for number, line in enumerate(handle, 1):
                    if line.strip():
                        self._note(file, number, offset, line)
                    offset += len(line)
        except OSError as fault:
            raise DataError(f"{file} can't be read: {fault.strerror or fault}") from fault

    def _note(self, file: Path, number: int, offset: int, line: bytes) -> None:
        try:
            row = json.loads(line)
            key = bytes.fromhex(row["custom_id"])
        except (ValueError, TypeError, KeyError):
            if line.endswith(b"\n"):
                self._damaged.append(f"{file}, line {number}")
            else:
                self._cut.append(f"{file}, line {number}")
            return
        why = _refusal(row)
        if why is None:
            self._places[key] = (*self._places.get(key, ()), (file, offset))
        else:
            self._refused += 1
            self._first_refusal = self._first_refusal or f"{why} ({file}, line {number})"
            self._failed[key] = self._failed.get(key, 0) + 1


def _refusal(row: Mapping[str, Any]) -> str | None:
    """Return why a line holds no answer, None where it does."""
    response = row.get("response")
    error = row.get("error")
    if not isinstance(response, Mapping):
        return f"error {json.dumps(error)[:200]}" if error else "no response"
    status, body = response.get("status_code", 200), response.get("body")
    if error or status != 200:
        said = error or (body.get("error", body) if isinstance(body, Mapping) else body)
        return f"status {status}: {json.dumps(said)[:200]}"
    return None if isinstance(body, Mapping) else "response.body is no object"
