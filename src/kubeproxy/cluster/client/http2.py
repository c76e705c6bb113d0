"""HTTP/2: all requests to one server on one connection.

The connection is made at the first request, and again when the last one was lost, when the server
announced that it goes away (GOAWAY), or when our certificates have changed. What is under way on a
connection goes on to its end.
"""

import asyncio
import ssl

from kubeproxy.cluster.client.dial import dial
from kubeproxy.cluster.client.http2_connection import Connection, Http2Response, Unprocessed
from kubeproxy.cluster.client.transport import Pings, Request, Route

MOST_ATTEMPTS = 3
"""For a request that a server says it has not looked at."""


class Http2:
    """Sends requests on one connection, which is shared by all."""

    def __init__(self, route: Route, pings: Pings) -> None:
        self._route = route
        self._pings = pings
        self._connection: Connection | None = None
        self._retired: list[Connection] = []
        self._dialing: asyncio.Task[Connection] | None = None

    async def request(self, request: Request, context: ssl.SSLContext) -> Http2Response:
        """The response, when its head has arrived."""
        for _ in range(MOST_ATTEMPTS - 1):
            connection = await self._connected(context)
            try:
                return await connection.request(request, self._route)
            except Unprocessed:
                connection.retire()
        connection = await self._connected(context)
        return await connection.request(request, self._route)

    async def _connected(self, context: ssl.SSLContext) -> Connection:
        """The connection; requests that come while it is being made wait for the same one."""
        current = self._connection
        if current is not None and current.usable and current.context is context:
            return current
        if self._dialing is None:
            self._dialing = asyncio.create_task(self._dial(context), name="connect")
            self._dialing.add_done_callback(self._dialled)
        return await asyncio.shield(self._dialing)

    def _dialled(self, task: asyncio.Task[Connection]) -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()  # those who wait have it; there may be none any more

    async def _dial(self, context: ssl.SSLContext) -> Connection:
        connection = await dial(self._route, context, lambda: Connection(context, self._pings))
        if self._connection is not None:
            self._connection.retire()
            self._retired = [*(each for each in self._retired if each.open), self._connection]
        self._connection = connection
        return connection

    async def close(self) -> None:
        """End all connections."""
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        for connection in [*self._retired, *([self._connection] if self._connection else [])]:
            await connection.close()
