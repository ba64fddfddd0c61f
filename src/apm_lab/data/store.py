"""What was generated and judged, written once and shared by every run: `STORE/<machine>/{texts,scores,vectors}.sqlite`.

Every machine writes files of its own and reads those of all others, so that several of them may share a folder on a
network file system, where two writers of one SQLite file would not be safe.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.file_system import is_shared, machine_name, safe_name
from apm_lab.data.shard import VERSION, Row, Shard, require_version
from apm_lab.data.shards import Shards, named_faults
from apm_lab.data.shelf_kind import SCORES, TEXTS, VECTORS
from apm_lab.errors import StoreError

__all__ = [
    "KEY_BYTES",
    "VERSION",
    "Keeping",
    "Measured",
    "ScoreShelf",
    "Shelf",
    "Store",
    "TextShelf",
    "Tokens",
    "Traffic",
    "VectorShelf",
]

KEY_BYTES = 16
KINDS = (TEXTS, SCORES, VECTORS)

Value = TypeVar("Value")


class Tokens(Protocol):
    """What one answer took (`language.protocols.Usage`)."""

    @property
    def tokens_in(self) -> int: ...  # noqa: D102
    @property
    def tokens_out(self) -> int: ...  # noqa: D102


class Traffic(Protocol):
    """Where a shelf counts the bytes of values that it gave and took."""

    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What making some rows took: seconds and tokens, the latter of `counted` of them."""

    rows: int
    seconds: float
    tokens_in: int
    tokens_out: int
    counted: int


class Keeping(Protocol[Value]):
    """What remembers values by key: a shelf, or what stands in for one."""

    def of(self, header: Sequence[str], traffic: Traffic | None = None, /) -> Keeping[Value]: ...  # noqa: D102
    def get(self, keys: Sequence[bytes], /) -> dict[bytes, Value]: ...  # noqa: D102
    def settled(self, keys: Sequence[bytes], /) -> dict[bytes, Value]: ...  # noqa: D102
    def put(self, rows: Iterable[tuple[bytes, Value] | tuple[bytes, Value, Tokens | None]], /) -> None: ...  # noqa: D102


class Shelf(Generic[Value]):
    """One kind of values by key, over all machines' files. `of` gives the same shelf for one source's rows."""

    def __init__(self, shards: Shards, header: Sequence[str] = (), traffic: Traffic | None = None) -> None:
        self._shards, self._header, self._traffic = shards, tuple(header), traffic
        self._since: float | None = None

    def of(self, header: Sequence[str], traffic: Traffic | None = None) -> Shelf[Value]:
        """Return this shelf for the rows of one source: operation, model, engine, sampling, and what else is in keys.

        `traffic` counts the bytes that go through it.
        """
        return Shelf(self._shards, header, traffic)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Value]:
        """Return the stored values among `keys`; what is lost in a damaged file, which is set aside, is not stored."""
        found = self._shards.get(keys)
        if self._traffic is not None:
            self._traffic.bytes_read += sum(map(_size, found.values()))
        self._since = time.monotonic()
        return found

    def settled(self, keys: Sequence[bytes]) -> dict[bytes, Value]:
        """Return the values that count for keys that were just put: another process may have been first."""
        return self._shards.get(keys)

    def holding(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of `keys` are stored."""
        return self._shards.holding(keys)

    def put(self, rows: Iterable[tuple[bytes, Value] | tuple[bytes, Value, Tokens | None]]) -> None:
        """Write all rows (key, value, what it took) or none; a key that is there keeps its first value.

        The time since this source's last `get` or `put` counts as the time that the values took to make.
        """
        written = [_row(*row) for row in rows]
        now = time.monotonic()
        self._shards.put(written, self._header, now - self._since if self._since is not None else 0.0)
        if self._traffic is not None:
            self._traffic.bytes_written += sum(_size(row[1]) for row in written)
        self._since = time.monotonic()

    def count(self) -> int:
        """Return the number of rows, all machines' together."""
        return self._shards.count()

    def measured(self) -> Measured:
        """Return what the rows of this source took so far, on all machines."""
        rows, seconds, read, written, counted = self._shards.measured(self._header)
        return Measured(int(rows), seconds, int(read), int(written), int(counted))

    def close(self) -> None:
        """Close the files; the next use opens them again."""
        self._shards.close()

    @property
    def files(self) -> list[Shard]:
        """The files of all machines, one's own first."""
        return self._shards.all()


TextShelf = Shelf[str]
ScoreShelf = Shelf[float]
"""Verdicts that are missing are not stored, so a later run asks again."""
VectorShelf = Shelf[NDArray[np.float32]]


class Store:
    """The store in the folder `path` (made when missing): `texts`, `scores` and `vectors`.

    Args:
        path: the folder.
        shared: whether other machines may have the folder open; None: whether its file system is a local one decides.
        machine: what this machine's folder in it is called; None: the host's name.
        notice: takes what a user should know though work goes on: a damaged file.
        reading: nothing is made, written or set aside.

    Raises:
        StoreError: not a store, of another version, or the disk is full; always with the path.

    """

    def __init__(
        self,
        path: Path | str,
        shared: bool | None = None,
        machine: str | None = None,
        notice: Callable[[str], None] | None = None,
        *,
        reading: bool = False,
    ) -> None:
        self.path = Path(path)
        with named_faults(self.path):
            _require_folder(self.path)
            if not reading:
                self.path.mkdir(parents=True, exist_ok=True)
            journal = "delete" if (is_shared(self.path) if shared is None else shared) else "wal"
        self.machine = machine_name() if machine is None else safe_name(machine)
        own = None if reading else self.machine
        each = [Shards(self.path, kind, own, journal, notice or _say) for kind in KINDS]
        self.texts: TextShelf = Shelf(each[0])
        self.scores: ScoreShelf = Shelf(each[1])
        self.vectors: VectorShelf = Shelf(each[2])
        if not reading:  # a folder that can't be written to is found out at once, before anything is spent
            for shards in each[:2]:
                shards.own_count()

    def close(self) -> None:
        """Close all files."""
        for shelf in (self.texts, self.scores, self.vectors):
            shelf.close()


def _row(key: bytes, value: object, usage: Tokens | None = None) -> Row:
    return (key, value, None, None) if usage is None else (key, value, usage.tokens_in, usage.tokens_out)


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return value.nbytes if isinstance(value, np.ndarray) else 8


def _require_folder(path: Path) -> None:
    """Raise StoreError where a file stands at the store's place: one of an earlier version, or something else."""
    if not path.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            require_version(connection, path)
    except sqlite3.DatabaseError:
        pass
    raise StoreError(f"store {path} is a file; a store is a folder: name one with store.path=...")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
