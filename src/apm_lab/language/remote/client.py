"""Calls to an endpoint in an event loop of their own, handed out by a plain generator as they are answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from yarl import URL

from apm_lab.language.remote.exchange import Access, Exchange, StoppedError, session
from apm_lab.language.remote.host import Host, this_host

__all__ = ["answered"]

Call = TypeVar("Call")
Value = TypeVar("Value")
_GATHER_S = 0.03  # answers that come within this time are handed out together: a change of threads costs a millisecond


def answered(
    access: Access, calls: Sequence[Call], work: Callable[[Exchange, Call], Awaitable[Value]]
) -> Iterator[list[tuple[int, Value]]]:
    """Yield (place, value) of the calls as they are answered, those that came since the last yield together.

    At most `concurrency` calls are in flight and as many more answered and not yet taken, however many there are.

    Raises:
        ApmLabError: of the first call that failed for good, after all answers that came have been yielded.

    """
    host = this_host()
    flow: _Flow[Call, Value] = _Flow(access, host, calls, work)
    future = asyncio.run_coroutine_threadsafe(flow.run(), host.loop)
    try:
        while (group := flow.groups.get()) is not None:
            yield group
            host.loop.call_soon_threadsafe(flow.taken, len(group))
        future.result()
    finally:
        future.cancel()
        flow.ended.wait(10)


class _Flow(Generic[Call, Value]):
    """One stream: its workers, and the answers on their way to the thread that takes them."""

    def __init__(
        self, access: Access, host: Host, calls: Sequence[Call], work: Callable[[Exchange, Call], Awaitable[Value]]
    ) -> None:
        self._access, self._host, self._work = access, host, work
        self._calls, self._count = iter(enumerate(calls)), len(calls)
        self.groups: SimpleQueue[list[tuple[int, Value]] | None] = SimpleQueue()
        self.ended = threading.Event()
        self._room = asyncio.Semaphore(2 * access.concurrency)
        self._come: list[tuple[int, Value]] = []

    async def run(self) -> None:
        """Work through all calls; raises what the first of them to fail for good has raised."""
        access = self._access
        try:
            async with session(access) as opened:
                exchange = Exchange(access, opened, self._host.limit(_endpoint(access.base_url), access.concurrency))
                workers = [
                    asyncio.create_task(self._answer_calls(exchange))
                    for _ in range(min(access.concurrency, self._count))
                ]
                try:
                    await _all_or_first_fault(workers, exchange, access.patience.grace_s)
                finally:
                    for worker in workers:
                        worker.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)
        finally:
            self._hand_out()
            self.groups.put(None)
            self.ended.set()

    def taken(self, count: int) -> None:
        """Make room for as many calls as answers were taken."""
        for _ in range(count):
            self._room.release()

    async def _answer_calls(self, exchange: Exchange) -> None:
        while not exchange.stopping.is_set():
            await self._room.acquire()
            place, call = next(self._calls, (-1, None))
            if call is None:
                self._room.release()  # for the next worker to find the same
                return
            value = await self._work(exchange, call)
            if not self._come:
                self._host.loop.call_later(_GATHER_S, self._hand_out)
            self._come.append((place, value))

    def _hand_out(self) -> None:
        if self._come:
            self.groups.put(self._come)
            self._come = []


async def _all_or_first_fault(workers: list[asyncio.Task[None]], exchange: Exchange, grace_s: float) -> None:
    """Wait for all workers; when one fails the others send nothing more, but may bring what they have asked for."""
    if not workers:
        return
    done, pending = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    if pending:
        exchange.stopping.set()
        late, _ = await asyncio.wait(pending, timeout=grace_s)
        done |= late
    faults = [fault for worker in done if (fault := worker.exception()) and not isinstance(fault, StoppedError)]
    if faults:
        raise faults[0]


def _endpoint(base_url: str) -> str:
    url = URL(base_url)
    return f"{url.scheme}://{url.host}:{url.port}"
