"""The thread and event loop in which all calls of a process run, and the limits of its endpoints."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from functools import cache

from apm_lab.language.remote.limit import Limit

__all__ = ["Host", "this_host"]


class Host:
    """An event loop in a daemon thread, and one `Limit` per endpoint."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._limits: dict[str, Limit] = {}
        self._thread = threading.Thread(target=self.loop.run_forever, name="apm_lab endpoints", daemon=True)
        self._thread.start()
        self._owner = os.getpid()
        atexit.register(self._close)

    def limit(self, endpoint: str, ceiling: int) -> Limit:
        """Return the endpoint's limit, with room for `ceiling`; in the loop's thread only."""
        limit = self._limits.get(endpoint)
        if limit is None:
            limit = self._limits[endpoint] = Limit(ceiling)
        limit.raise_ceiling(ceiling)
        return limit

    def _close(self) -> None:
        if os.getpid() == self._owner:  # a forked child has no such thread
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(5)
            if not self._thread.is_alive():
                self.loop.close()


def this_host() -> Host:
    """Return this process's host, started at the first call; a forked child gets its own."""
    return _host(os.getpid())


@cache
def _host(_process: int) -> Host:
    return Host()
