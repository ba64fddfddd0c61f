"""What is in a store and whether it is sound, file by file; taking rows out, and taking them away."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from apm_lab.data.shard import Damaged, Moved, Shard
from apm_lab.data.shards import named_faults
from apm_lab.data.shelf_kind import Kind, checksum
from apm_lab.data.store import Store
from apm_lab.errors import StoreError

__all__ = ["FIELDS", "Health", "Source", "Stored", "check", "prune", "rows_of", "shards_of", "sources_of"]

FIELDS = ("operation", "model", "engine", "sampling")
"""What the first parts of a source's header say; the parts after them are the operation's own (a judge's rubric)."""
_TOTALS = (
    "SELECT id, header, count(*), sum(length(CAST(value AS BLOB))), sum(rows.tokens_in), sum(rows.tokens_out) "
    "FROM rows JOIN sources ON id = source GROUP BY id ORDER BY id"
)
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one source in one file: how many, their values' bytes, and the tokens they took (None: uncounted)."""

    shard: Shard
    number: int
    header: tuple[str, ...]
    rows: int
    bytes: int
    tokens_in: int | None
    tokens_out: int | None

    def matches(self, wanted: Mapping[str, str]) -> bool:
        """Return whether each named part of the header contains what is wanted of it, upper or lower case."""
        parts = dict(zip(FIELDS, self.header, strict=False))
        return all(text.lower() in parts.get(name, "").lower() for name, text in wanted.items())


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored value with all that is known of it."""

    kind: str
    key: bytes
    header: tuple[str, ...]
    value: Any
    tokens_in: int | None
    tokens_out: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """What a file was found to be: its rows, and what is wrong with it (nothing for a sound one)."""

    shard: Shard
    rows: int
    faults: tuple[str, ...]


def shards_of(store: Store) -> list[Shard]:
    """Return all files of a store."""
    return [shard for shelf in (store.texts, store.scores, store.vectors) for shard in shelf.files]


def sources_of(store: Store) -> list[Source]:
    """Return every source of every file; StoreError naming a damaged one."""
    found = []
    for shard in shards_of(store):
        with _read(shard) as connection:
            for number, header, rows, size, read, written in connection.execute(_TOTALS):
                found.append(Source(shard, number, tuple(json.loads(header)), rows, size, read, written))
    return found


def rows_of(source: Source) -> Iterator[list[Stored]]:
    """Yield a source's rows, some at a time, in the order of the file."""
    kind = source.shard.kind
    query = "SELECT key, value, tokens_in, tokens_out, checksum FROM rows WHERE source = ?"
    with _read(source.shard) as connection:
        cursor = connection.execute(query, (source.number,))
        while rows := cursor.fetchmany(_AT_ONCE):
            stored = []
            for key, raw, read, written, expected in rows:
                if checksum(key, kind.packed(raw)) != expected:
                    raise StoreError(f"store {source.shard.path} is damaged: {_failing(key)}; {_ADVICE}")
                stored.append(Stored(kind.name, key, source.header, kind.value(raw), read, written))
            yield stored


def check(shard: Shard) -> Health:
    """Return a file's health: SQLite's own check of its pages, and every row's checksum."""
    faults: list[str] = []
    rows = 0
    try:
        with shard.session() as at:
            found = [str(_text(line)) for (line,) in at.connection.execute("PRAGMA quick_check(3)")]
            faults += [line for line in found if line != "ok"]
            for row in at.connection.execute("SELECT key, value, checksum FROM rows"):
                rows += 1
                if not _sound(row, shard.kind) and len(faults) < 3:
                    faults.append(_failing(row[0]))
    except (Damaged, Moved) as fault:
        faults.append(str(fault) or "it has no tables")
    except sqlite3.Error as fault:
        faults.append(str(fault))
    return Health(shard, rows, tuple(faults))


def prune(source: Source) -> int:
    """Delete a source's rows, give their space back, and return how many there were."""
    with named_faults(source.shard.path), source.shard.session() as at:
        with at.connection:
            at.connection.execute("BEGIN IMMEDIATE")
            # Its line among the sources stays: another process may be about to write more rows of it.
            count = at.connection.execute("DELETE FROM rows WHERE source = ?", (source.number,)).rowcount
        with suppress(sqlite3.OperationalError):  # in use or no room: the next one will
            at.connection.execute("VACUUM")
    return int(count)


_ADVICE = "python -m apm_lab store verify looks at all of it, the next run on its machine sets it aside"


@contextmanager
def _read(shard: Shard) -> Iterator[sqlite3.Connection]:
    try:
        with named_faults(shard.path), shard.session() as at:
            yield at.connection
    except Moved:
        raise StoreError(f"store {shard.path} has just been replaced; give the command again") from None
    except Damaged as fault:
        raise StoreError(f"store {shard.path} is damaged: {fault.reason}; {_ADVICE}") from fault


def _sound(row: tuple[Any, ...], kind: Kind) -> bool:
    try:
        return bool(checksum(row[0], kind.packed(row[1])) == row[2])
    except Exception:  # whatever a damaged value may be
        return False


def _failing(key: bytes) -> str:
    return f"the value of {key.hex() if isinstance(key, bytes) else repr(key)} fails its checksum"


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
