"""A damaged file of the store: set aside, and what it still holds kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from apm_lab.data.shard import Damaged, Shard, file_number, locked, make
from apm_lab.data.shelf_kind import Kind, checksum

__all__ = ["set_aside", "sound_rows"]

_FILES = ("-wal", "-shm", "-journal", "")
_AT_ONCE = 2000


def set_aside(shard: Shard, fault: Damaged) -> str | None:
    """Rename a damaged file, keep the rows that still read well in a new one, and return what was done, in words.

    None where another process has done it, or the file is gone: there is nothing to say. Other processes that have the
    file open notice with their next use that another one stands in its place.
    """
    path = shard.path
    with locked(path.parent, exclusive=True):
        if fault.number is None or file_number(path) != fault.number:
            return None
        shard.close()
        aside = path.with_name(f"{path.name}.damaged-{datetime.now():%Y-%m-%dT%H-%M-%S-%f}")
        with _no_writer(path):
            for suffix in _FILES:  # the file itself last: with it the others would lose their meaning
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        kept = _rescue(aside, path, shard.kind)
    return (
        f"store {path} is damaged ({fault.reason}): set aside as {aside.name}; {kept} of its rows could be read and "
        "are kept, what is lost is asked again"
    )


@contextmanager
def _no_writer(path: Path) -> Iterator[None]:
    """Hold SQLite's own write lock, where the file is whole enough to have one: nobody is in the middle of a write."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):
            connection.execute("BEGIN IMMEDIATE")
        yield


def _rescue(aside: Path, path: Path, kind: Kind) -> int:
    """Copy every sound row into a new file at `path`, and return how many there were; none at all, no file."""
    draft = path.with_name(f".{path.name}.rescue")
    draft.unlink(missing_ok=True)
    try:
        with (
            closing(sqlite3.connect(f"{aside.absolute().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(draft, isolation_level=None)) as new,
        ):
            new.execute("PRAGMA journal_mode=OFF")
            make(new, kind)
            sources = old.execute("SELECT * FROM sources").fetchall()
            new.executemany("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?)", sources)
            old.text_factory = bytes
            known = {source[0] for source in sources}
            new.execute("BEGIN")
            for rows in sound_rows(old, kind):
                texts = [(*row[:2], kind.value(row[2]), *row[3:]) for row in rows if row[1] in known]
                bound = [(*row[:2], kind.bound(row[2]), *row[3:]) for row in texts]
                new.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?, ?)", bound)
            new.execute("COMMIT")
            kept = int(new.execute("SELECT count(*) FROM rows").fetchone()[0])
        draft.replace(path)
    except (sqlite3.Error, OSError, UnicodeError):  # nothing to be had, or no room for it
        draft.unlink(missing_ok=True)
        return 0
    return kept


def sound_rows(connection: sqlite3.Connection, kind: Kind) -> Iterator[list[tuple[bytes, int, bytes]]]:
    """Yield the rows that pass their checksum, from the beginning as far as they read, and then from the end.

    The connection gives texts as bytes.
    """
    order = "key" if kind.in_key_tree else "rowid"
    for direction in ("ASC", "DESC"):
        try:
            cursor = connection.execute(f"SELECT * FROM rows ORDER BY {order} {direction}")
            while rows := cursor.fetchmany(_AT_ONCE):
                yield [row for row in rows if _is_sound(row, kind)]
            return
        except sqlite3.DatabaseError:
            continue


def _is_sound(row: tuple[object, ...], kind: Kind) -> bool:
    key, value, expected = row[0], row[2], row[5]
    try:
        return isinstance(key, bytes) and checksum(key, kind.packed(value)) == expected
    except (TypeError, ValueError, UnicodeError, OverflowError):
        return False
