"""Connections that are used again only while nothing has come over them unasked."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler

if TYPE_CHECKING:
    from aiohttp.client import ClientTimeout
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

__all__ = ["CautiousConnector"]


class CautiousConnector(aiohttp.TCPConnector):
    """A pool of connections without a limit, whose idle ones are looked at before they are taken.

    Where a server or a proxy sends a second answer to one request, the next call on that connection would take it for
    its own. A connection that the server has just closed is found the same way, before a call is lost on it.
    """

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=60)
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """Return a new connection, or an idle one over which nothing has come."""
        while True:
            connection = await super().connect(req, traces, timeout)
            handler = connection.protocol
            if handler is None or handler not in self._used:
                if handler is not None:
                    self._used.add(handler)
                return connection
            if not (handler.should_close or _readable(connection)):
                return connection
            connection.close()


def _readable(connection: Connection) -> bool:
    transport = connection.transport
    socket = None if transport is None else transport.get_extra_info("socket")
    if socket is None:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
