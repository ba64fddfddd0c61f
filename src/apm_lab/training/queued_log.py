"""Training figures on their way from a method to the trackers, with nothing in between that a method could follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Thread

__all__ = ["Log", "Settle", "queued"]

Log = Callable[[str, dict[str, float]], None]
"""`log(name, figures)`; the entry `step` is the step they belong to."""
Settle = Callable[[], None]
"""`settle()` returns when all that was logged has arrived, and raises what stood in its way."""


@contextmanager
def queued(send: Log) -> Iterator[tuple[Log, Settle]]:
    """Yield a log that another thread passes on to `send`, and how to wait for it; all arrives before this ends.

    What a method holds then leads to a queue and no further: a tracker knows the configuration, which no method may.
    What `send` raises, `settle` and the end raise where nothing else is; `send` is called no more after that.
    """
    queue: Queue[tuple[str, dict[str, float]] | None] = Queue()
    faults: list[Exception] = []
    thread = Thread(target=_pass_on, args=(queue, send, faults), daemon=True)
    thread.start()
    put = queue.put

    def log(name: str, figures: dict[str, float]) -> None:
        put((name, dict(figures)))

    def settle() -> None:
        queue.join()
        if faults:
            raise faults[0]

    try:
        yield log, settle
        settle()
    finally:
        queue.put(None)
        thread.join()


def _pass_on(queue: Queue[tuple[str, dict[str, float]] | None], send: Log, faults: list[Exception]) -> None:
    while True:
        entry = queue.get()
        try:
            if entry is None:
                return
            if not faults:
                send(*entry)
        except Exception as fault:  # for the thread that settles
            faults.append(fault)
        finally:
            queue.task_done()
