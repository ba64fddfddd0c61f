"""One process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone"]


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the lock file for the block; another process that wants it waits."""
    with lock.open("a") as handle:
        try:
            import fcntl
        except ImportError:  # no such locks here: who renames last into place finds it taken
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
