"""All files of one kind in a store: this machine's, which is written, and the others', which are read."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from apm_lab.data.shard import Damaged, Moved, Row, Shard, file_number
from apm_lab.data.shard_rescue import set_aside
from apm_lab.data.shelf_kind import Kind
from apm_lab.errors import StoreError

__all__ = ["Shards", "named_faults"]

_TIMES = 5
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Result = TypeVar("Result")


class Shards:
    """The files of one kind: this machine's, which is written, and the others', which are read."""

    def __init__(
        self, root: Path, kind: Kind, machine: str | None, journal: str, notice: Callable[[str], None]
    ) -> None:
        self._root, self._kind, self._machine, self._notice = root, kind, machine, notice
        self._own = Shard(root / machine / f"{kind.name}.sqlite", kind, journal) if machine is not None else None
        self._others: dict[str, Shard] = {}
        self._left_out: dict[str, int | None] = {}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the stored values among `keys`; this machine's count before another's."""
        found: dict[bytes, Any] = self._with_own(lambda own: own.get(keys)) if self._own and keys else {}
        for other in self._other_machines():
            left = [key for key in keys if key not in found] if found else keys
            if not left:
                break
            found.update(self._with_other(other, partial(_values, keys=left), dict[bytes, Any]()))
        return found

    def holding(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which of `keys` some machine has."""
        found: set[bytes] = self._with_own(lambda own: own.holding(keys)) if self._own and keys else set()
        for other in self._other_machines():
            found |= self._with_other(other, partial(_held, keys=keys), set())
        return found

    def put(self, rows: Sequence[Row], header: Sequence[str], seconds: float) -> None:
        """Write all rows or none; what another machine has already is left out: the first writer's value counts."""
        keys, theirs = [row[0] for row in rows], set[bytes]()
        for other in self._other_machines():
            theirs |= self._with_other(other, partial(_held, keys=keys), set())
        kept = [row for row in rows if row[0] not in theirs]
        self._with_own(lambda own: own.put(kept, header, seconds))

    def count(self) -> int:
        """Return the number of rows in all files together."""
        own = self.own_count() if self._own else 0
        return own + sum(self._with_other(other, Shard.count, 0) for other in self._other_machines())

    def measured(self, header: Sequence[str]) -> tuple[float, ...]:
        """Return the sums of `Shard.measured` over all files."""
        nothing: tuple[float, ...] = (0, 0.0, 0, 0, 0)
        use = partial(_measured, header=header)
        found = [self._with_own(use)] if self._own else []
        found += [self._with_other(other, use, nothing) for other in self._other_machines()]
        return tuple(map(sum, zip(nothing, *found, strict=True)))

    def own_count(self) -> int:
        """Return the number of rows of this machine, whose file is made when missing."""
        return self._with_own(Shard.count)

    def all(self) -> list[Shard]:
        """Return all files, this machine's first."""
        return [*([self._own] if self._own else []), *self._other_machines()]

    def close(self) -> None:
        """Close all files."""
        for shard in (*([self._own] if self._own else []), *self._others.values()):
            shard.close()

    def _with_own(self, use: Callable[[Shard], Result]) -> Result:
        """Return what `use` gives of this machine's file; a damaged one is set aside first."""
        if self._own is None:
            raise StoreError(f"store {self._root} is open for reading only")
        with named_faults(self._own.path):
            for _ in range(_TIMES):
                try:
                    return use(self._own)
                except Damaged as fault:
                    if said := set_aside(self._own, fault):
                        self._notice(said)
                except Moved:
                    continue
        raise StoreError(f"store {self._own.path} is damaged again and again; check the disk, or name another folder")

    def _other_machines(self) -> list[Shard]:
        """Return the other machines' files, by name; those that have come since are among them."""
        with named_faults(self._root):
            for folder in self._root.iterdir() if self._root.is_dir() else ():
                if folder.name not in self._others and folder.name != self._machine and folder.is_dir():
                    file = folder / f"{self._kind.name}.sqlite"
                    if file.is_file():
                        self._others[folder.name] = Shard(file, self._kind, None)
        return [self._others[name] for name in sorted(self._others)]

    def _with_other(self, shard: Shard, use: Callable[[Shard], Result], nothing: Result) -> Result:
        """Return what `use` gives of another machine's file, `nothing` where it can't be read.

        Its own machine alone may set it aside: it may be in the middle of a write.
        """
        number, name = file_number(shard.path), str(shard.path)
        if number is None or self._left_out.get(name, -1) == number:
            return nothing
        with named_faults(shard.path):
            try:
                return use(shard)
            except Moved:
                return nothing
            except Damaged as fault:
                reason = f"is damaged ({fault.reason})"
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                    raise
                reason = f"can't be read ({fault}): its machine was stopped in the middle of a write"
        self._left_out[name] = number
        self._notice(f"store {shard.path} {reason}; left out until its own machine has used it again")
        return nothing


def _values(shard: Shard, keys: Sequence[bytes]) -> dict[bytes, Any]:
    return shard.get(keys)


def _measured(shard: Shard, header: Sequence[str]) -> tuple[float, ...]:
    return shard.measured(header)


def _held(shard: Shard, keys: Sequence[bytes]) -> set[bytes]:
    return shard.holding(keys)


@contextmanager
def named_faults(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's faults about this path into a StoreError that says what to do."""
    try:
        yield
    except sqlite3.Error as fault:
        full = "full" in str(fault) or "disk I/O error" in str(fault)
        advice = "free space on the disk" if full else "check the file, or name another folder with store.path=..."
        raise StoreError(f"store {path}: {fault}; {advice} and give the same command again") from fault
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = (
            "free space on the disk and give the same command again"
            if full
            else "name another folder with store.path=..."
        )
        raise StoreError(f"store {path}: {fault.strerror or fault}; {advice}") from fault
