"""How many calls an endpoint is given at once: found out while it works, shared by all roles of a process."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Limit"]

_FIRST = 16
_STEPS = 16  # of equal size from one to the ceiling, once growth is careful


class Limit:
    """A limit on calls in flight that grows while more of them bring more answers, and halves on congestion.

    It doubles at first and from the first congestion or plateau on grows by a sixteenth of the ceiling (at least one)
    in each round of answers, as long as the rate, size / mean latency, stays within a tenth of the best. All times are
    the event loop's, in whose thread everything here happens.

    Args:
        ceiling: never more than this; the largest that any role asked for.

    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling, self.size, self.in_flight = ceiling, float(min(ceiling, _FIRST)), 0
        self.heard = False  # whether the endpoint has ever answered
        self._doubling, self._best = True, 0.0
        self._cut_at = self._round_at = self._opens_at = 0.0
        self._count, self._latency, self._full = 0, 0.0, False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def raise_ceiling(self, wanted: int) -> None:
        """Make room for a role that asks for more than those before it."""
        if wanted > self.ceiling:
            self.ceiling, self._doubling = wanted, True

    async def enter(self) -> float:
        """Return the time at which a call may begin; each is to be followed by one `leave`."""
        loop = asyncio.get_running_loop()
        while True:
            closed = self._opens_at - loop.time()
            if closed > 0:
                await asyncio.sleep(closed)
            elif self.in_flight < max(1, int(self.size)):
                self.in_flight += 1
                return loop.time()
            else:
                await self._turn(loop)

    def leave(self) -> None:
        """Say that a call has ended, however it did."""
        self.in_flight -= 1
        self._call_next()

    def succeeded(self, started: float, now: float) -> None:
        """Count an answer to a call that began at `started`."""
        self.heard = True
        self._full |= self.in_flight >= int(self.size)
        if started < self._round_at:  # of a round with another size
            return
        self._count += 1
        self._latency += now - started
        if self._count >= max(self.size, 4):
            self._end_round(now)

    def congested(self, started: float, now: float) -> None:
        """Halve the limit, once for all calls that were on their way when it was halved last."""
        if started >= self._cut_at:
            self.size = max(1.0, self.size / 2)
            self._cut_at, self._doubling, self._best = now, False, 0.0
            self._begin_round(now)

    def close_until(self, opens_at: float) -> None:
        """Let nobody begin before this time: the server has asked for a pause."""
        self._opens_at = max(self._opens_at, opens_at)

    def _end_round(self, now: float) -> None:
        rate = self.size / max(self._latency / self._count, 1e-9)
        if self._full:  # else the size was not what held the rate down
            if self._doubling and rate > 1.1 * self._best:
                self.size *= 2
            else:
                self._doubling = False
                if rate > 0.9 * self._best:
                    self.size += max(1.0, self.ceiling / _STEPS)
            self.size = min(self.size, float(self.ceiling))
            self._best = max(rate, 0.95 * self._best)
        self._begin_round(now)
        self._call_next()

    def _begin_round(self, now: float) -> None:
        self._round_at, self._count, self._latency, self._full = now, 0, 0.0, False

    async def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        ticket: asyncio.Future[None] = loop.create_future()
        self._waiting.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():  # called and gone: the next one's turn
                self._call_next()
            raise

    def _call_next(self) -> None:
        room = max(1, int(self.size)) - self.in_flight
        while room > 0 and self._waiting:
            ticket = self._waiting.popleft()
            if not ticket.done():
                ticket.set_result(None)
                room -= 1
