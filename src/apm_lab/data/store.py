"""What was generated and judged, written once and shared by every run: a content-addressed SQLite file.

SQLite in WAL mode gives what is needed and we would not write better: several processes at once, nothing half-written
after a kill or a full disk, memory that does not grow with the store.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from apm_lab.errors import StoreError

__all__ = ["KEY_BYTES", "ScoreShelf", "Store", "TextShelf"]

VERSION = "1"
KEY_BYTES = 16
_MOST_VARIABLES = 500
_WAIT_S = 120.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS texts (key BLOB PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL NOT NULL) WITHOUT ROWID",
    f"INSERT OR IGNORE INTO meta VALUES ('version', '{VERSION}')",
)


class _Shelf:
    """One table of the store, opened when first used and again in every process that inherits it."""

    table: str
    column: str

    def __init__(self, path: Path) -> None:
        self._path = path
        # By process id: a forked child opens its own, and must not close the one it inherits.
        self._connections: dict[int, sqlite3.Connection] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_path": self._path, "_connections": {}}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, object]:
        """Return the stored values among `keys`."""
        found: dict[bytes, object] = {}
        with self._session() as connection:
            for start in range(0, len(keys), _MOST_VARIABLES):
                part = keys[start : start + _MOST_VARIABLES]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, {self.column} FROM {self.table} WHERE key IN ({marks})",
                    part,
                )
                found.update(rows)
        return found

    def put(self, rows: Iterable[tuple[bytes, object]]) -> None:
        """Write all rows or none; a key that is there already keeps its first value."""
        with self._session() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(f"INSERT OR IGNORE INTO {self.table} VALUES (?, ?)", rows)

    def count(self) -> int:
        """Return the number of rows."""
        with self._session() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {self.table}").fetchone()[0])

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        with _named_faults(self._path):
            connection = self._connections.get(os.getpid())
            if connection is None:
                connection = self._connections[os.getpid()] = _connect(self._path)
            yield connection


class TextShelf(_Shelf):
    """Generated texts by key."""

    table, column = "texts", "text"


class ScoreShelf(_Shelf):
    """Judge scores by key. Verdicts that are missing are not stored, so a later run asks again."""

    table, column = "scores", "score"


class Store:
    """The store at `path` (made when missing): `texts` and `scores`.

    Raises:
        StoreError: not a store, damaged, of another version, or the disk is full; always with the path.

    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with _named_faults(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = _connect(self.path)
            try:
                if not _is_store(connection, self.path):
                    _make(connection)
            finally:
                connection.close()
        self.texts = TextShelf(self.path)
        self.scores = ScoreShelf(self.path)

    def close(self) -> None:
        """Close both shelves."""
        self.texts.close()
        self.scores.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
    # In WAL mode NORMAL can't corrupt the file; a power cut may lose the last transactions, which are only a cache.
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _is_store(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for a store of this version; refuse anything else without touching it.

    False for a file without tables: a new one, or one whose maker was killed or found the disk full half-way.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not tables:
        return False
    columns = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
    query = "SELECT value FROM meta WHERE name='version'"
    row = connection.execute(query).fetchone() if columns == {"name", "value"} else None
    if row is None:
        raise StoreError(f"{path} is a SQLite file but no apm_lab store; name another file with store.path=...")
    if row[0] != VERSION:
        raise StoreError(
            f"store {path} was written by store version {row[0]}, this apm_lab reads version {VERSION}; "
            "use the apm_lab that wrote it, or name another file with store.path=..."
        )
    return True


def _make(connection: sqlite3.Connection) -> None:
    """Make all tables or none; another process may be doing the same."""
    _enter_wal_mode(connection)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Set the file's mode, which stays with it. Here alone SQLite fails at once where another process is busy."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as fault:
            if fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@contextmanager
def _named_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        full = "full" in str(fault) or "disk I/O error" in str(fault)
        advice = "free space on the disk" if full else "check the file, or name another one with store.path=..."
        raise StoreError(f"store {path}: {fault}; {advice} and give the same command again") from fault
    except OSError as fault:
        raise StoreError(f"store {path}: {fault.strerror or fault}; name another file with store.path=...") from fault
