"""One file of the store: a SQLite database that one machine writes and all may read.

SQLite gives what is needed and we would not write better: several processes at once, nothing half-written after a kill
or a full disk, memory that does not grow with the store.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from apm_lab.data.shelf_kind import Kind, checksum
from apm_lab.errors import StoreError

__all__ = ["VERSION", "Damaged", "Moved", "Row", "Shard", "file_number", "locked", "make", "require_version"]

VERSION = "2"
_MOST_VARIABLES = 2000
_WAIT_S = 120.0
_CACHE_KB = 8000
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_READONLY_DBMOVED = sqlite3.SQLITE_READONLY | (4 << 8)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY, header TEXT NOT NULL UNIQUE, "
    "seconds REAL NOT NULL DEFAULT 0, timed INTEGER NOT NULL DEFAULT 0, "
    "tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0, counted INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, source INTEGER NOT NULL, value {column} NOT NULL, "
    "tokens_in INTEGER, tokens_out INTEGER, checksum INTEGER NOT NULL){tree}",
    f"INSERT OR IGNORE INTO meta VALUES ('version', '{VERSION}')",
)
_SPENT = (
    "UPDATE sources SET seconds = seconds + ?, timed = timed + ?, tokens_in = tokens_in + ?, "
    "tokens_out = tokens_out + ?, counted = counted + ? WHERE id = ?"
)

Row = tuple[bytes, Any, int | None, int | None]
"""Key, value, tokens read and tokens written for it (None: not counted)."""


class Damaged(Exception):  # noqa: N818 (never seen by a user)
    """A file of the store is not what was written; `number` tells which file was read."""

    def __init__(self, reason: str, number: int | None) -> None:
        super().__init__(reason)
        self.reason, self.number = reason, number


class Moved(Exception):  # noqa: N818
    """Another process set the file aside while this one was writing to it: the rows are to be written again."""


@dataclass(slots=True)
class _Open:
    connection: sqlite3.Connection
    number: int | None
    sources: dict[str, int]


class Shard:
    """The file `path` with values of one kind, opened when first used and again in every process that inherits it.

    `journal` is SQLite's journal mode, `wal` or `delete`; None: the file is read only, and never made.
    """

    def __init__(self, path: Path, kind: Kind, journal: str | None) -> None:
        self.path, self.kind, self._journal = path, kind, journal
        # By process id: a forked child opens its own, and must not close the one it inherits.
        self._open: dict[int, _Open] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_open": {}}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the stored values among `keys`, every one checked."""
        found: dict[bytes, Any] = {}
        with self.session() as at:
            for rows in _among(at.connection, "key, value, checksum", keys):
                try:
                    failing = self.kind.read(rows, found)
                except (TypeError, ValueError, struct.error):  # no value of this kind
                    raise Damaged("a row has lost its shape", at.number) from None
                if failing is not None:
                    raise Damaged(f"the value of {failing.hex()} fails its checksum", at.number)
        return found

    def holding(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of `keys` are stored, without reading their values."""
        with self.session() as at:
            return {key for rows in _among(at.connection, "key", keys) for (key,) in rows}

    def put(self, rows: Sequence[Row], header: Sequence[str], seconds: float) -> None:
        """Write all rows or none; a key that is there already keeps its first value.

        `header` says whose rows they are, `seconds` how long they took to make.
        """
        packed, bound = self.kind.packed, self.kind.bound
        counted = [(read, written) for _, _, read, written in rows if read is not None and written is not None]
        spent = (seconds, len(rows), sum(read for read, _ in counted), sum(out for _, out in counted), len(counted))
        with self.session() as at:
            with at.connection:
                at.connection.execute("BEGIN IMMEDIATE")
                source = _source(at, header)
                content = []
                for key, given, read, written in sorted(rows, key=itemgetter(0)):
                    value = bound(given)
                    content.append((key, source, value, read, written, checksum(key, packed(value))))
                at.connection.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?, ?)", content)
                at.connection.execute(_SPENT, (*spent, source))
            if file_number(self.path) != at.number:
                raise Moved

    def measured(self, header: Sequence[str]) -> tuple[float, ...]:
        """Return what this source's rows took so far: rows, seconds, tokens read and written, rows with tokens."""
        query = "SELECT timed, seconds, tokens_in, tokens_out, counted FROM sources WHERE header = ?"
        with self.session() as at:
            found = at.connection.execute(query, (_header_text(header),)).fetchone()
        return tuple(found) if found else (0, 0.0, 0, 0, 0)

    def count(self) -> int:
        """Return the number of rows."""
        with self.session() as at:
            return int(at.connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        at = self._open.pop(os.getpid(), None)
        if at is not None:
            with suppress(sqlite3.Error):
                at.connection.close()

    @contextmanager
    def session(self) -> Iterator[_Open]:
        """Give the open file; Damaged, Moved and a StoreError of another version come out of it as what they are."""
        try:
            at = self._open.get(os.getpid())
            if at is not None and at.number != file_number(self.path):  # set aside, or removed, by somebody else
                self.close()
                at = None
            if at is None:
                at = self._open[os.getpid()] = self._opened()
            yield at
        except sqlite3.DatabaseError as fault:
            code = getattr(fault, "sqlite_errorcode", 0)
            if code & 0xFF in _DAMAGE:
                raise Damaged(str(fault), at.number if at else file_number(self.path)) from fault
            if code == _READONLY_DBMOVED:
                raise Moved from fault
            raise

    def _opened(self) -> _Open:
        if self._journal is None:
            address = f"{self.path.absolute().as_uri()}?mode=ro"
            if not os.access(self.path.parent, os.W_OK) and not self.path.with_name(f"{self.path.name}-wal").exists():
                address += "&immutable=1"  # else SQLite would have to make files beside it
            connection = sqlite3.connect(address, timeout=_WAIT_S, isolation_level=None, uri=True)
            return _Open(_checked(connection, self.path), file_number(self.path), {})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.parent, exclusive=False):  # nobody sets it aside meanwhile
            connection = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
            try:
                # In WAL mode NORMAL can't corrupt the file; a power cut may lose the last transactions, which are only
                # a cache.
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
                _enter_mode(connection, self._journal, patient=not _is_shard(connection, self.path))
                if not _is_shard(connection, self.path):
                    make(connection, self.kind)
            except BaseException:
                connection.close()
                raise
            connection.text_factory = bytes
            return _Open(connection, file_number(self.path), {})


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return a connection for reading; one that is just being made counts as not there."""
    try:
        if not _is_shard(connection, path):
            raise Moved
    except BaseException:
        connection.close()
        raise
    connection.text_factory = bytes
    return connection


def _among(connection: sqlite3.Connection, columns: str, keys: Sequence[bytes]) -> Iterator[Iterable[tuple[Any, ...]]]:
    """Yield these columns of the rows with `keys`, some at a time; in the order of the keys they lie close together."""
    for start in range(0, len(keys), _MOST_VARIABLES):
        part = sorted(keys[start : start + _MOST_VARIABLES])
        marks = ",".join("?" * len(part))
        yield connection.execute(f"SELECT {columns} FROM rows WHERE key IN ({marks})", part)


def _source(at: _Open, header: Sequence[str]) -> int:
    """Return the number of the source with this header, which is written where it is not there yet."""
    text = _header_text(header)
    number = at.sources.get(text)
    if number is None:
        at.connection.execute("INSERT OR IGNORE INTO sources (header) VALUES (?)", (text,))
        (number,) = at.connection.execute("SELECT id FROM sources WHERE header = ?", (text,)).fetchone()
        at.sources[text] = number
    return number


def _header_text(header: Sequence[str]) -> str:
    return json.dumps(list(header), ensure_ascii=False)


def file_number(path: Path) -> int | None:
    """Return the number of the file at this place, None where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def require_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError where a SQLite file with tables is no store, or one of another version."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
    query = "SELECT value FROM meta WHERE name='version'"
    row = connection.execute(query).fetchone() if columns == {"name", "value"} else None
    if row is None:
        raise StoreError(f"{path} is a SQLite file but no apm_lab store; name another folder with store.path=...")
    if row[0] != VERSION:
        raise StoreError(
            f"store {path} was written by store version {row[0]}, this apm_lab reads version {VERSION}; "
            "use the apm_lab that wrote it, or name another folder with store.path=..."
        )


def _is_shard(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for a shard of this version; refuse anything else without touching it.

    False for a file without tables: a new one, or one whose maker was killed or found the disk full half-way.
    """
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE type='table'").fetchone()[0]:
        return False
    require_version(connection, path)
    return True


def make(connection: sqlite3.Connection, kind: Kind) -> None:
    """Make all tables or none; another process may be doing the same."""
    tree = " WITHOUT ROWID" if kind.in_key_tree else ""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement.format(column=kind.column, tree=tree))


def _enter_mode(connection: sqlite3.Connection, journal: str, patient: bool) -> None:
    """Set the file's journal mode, which stays with it. Here alone SQLite fails at once where another process is busy.

    Without patience a file in use keeps its mode for this time.
    """
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == journal:
        return
    deadline = time.monotonic() + (_WAIT_S if patient else 0)
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode={journal}")
            return
        except sqlite3.OperationalError as fault:
            busy = fault.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or (patient and time.monotonic() > deadline):
                raise
            if not patient:
                return
        time.sleep(0.01)


@contextmanager
def locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a machine's folder: shared for opening its files, exclusive for setting one aside."""
    import fcntl

    with (folder / ".lock").open("w") as handle:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
