"""Training figures on their way from a method to the trackers, with nothing in between that a method could follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

__all__ = ["Log", "queued"]

Log = Callable[[str, dict[str, float]], None]
"""`log(name, figures)`; the entry `step` is the step they belong to."""


@contextmanager
def queued(send: Log) -> Iterator[Log]:
    """Yield a log that another thread passes on to `send`, all of it before this ends.

    What a method holds then leads to a queue and no further: a tracker knows the configuration, which no method may.
    What `send` raises is raised at the end, where nothing else is; it is called no more after that.
    """
    queue: SimpleQueue[tuple[str, dict[str, float]] | None] = SimpleQueue()
    faults: list[Exception] = []
    thread = Thread(target=_pass_on, args=(queue, send, faults), daemon=True)
    thread.start()
    put = queue.put

    def log(name: str, figures: dict[str, float]) -> None:
        put((name, dict(figures)))

    try:
        yield log
    finally:
        queue.put(None)
        thread.join()
    if faults:
        raise faults[0]


def _pass_on(queue: SimpleQueue[tuple[str, dict[str, float]] | None], send: Log, faults: list[Exception]) -> None:
    while (entry := queue.get()) is not None:
        if not faults:
            try:
                send(*entry)
            except Exception as fault:  # for the thread that waits at the end
                faults.append(fault)
