"""The answer to one request: a status, and a body that arrives bit by bit."""

import asyncio
import socket
import zlib

import aiohttp

from kubeproxy.cluster.client.failures import UnreachableError, describe_failure
from kubeproxy.cluster.client.inflate import PIECE, Inflater
from kubeproxy.cluster.client.resources import SMALL_LIST

PATIENCE = 120.0
"""Between two bytes of a list."""

READ_SIZE = 64 * 1024
"""What is taken at once bounds how long others wait."""


# A peer that vanished is noticed after 45 s: as soon as upstream notices it with HTTP/2 pings.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class Answer:
    """Reads a response that aiohttp leaves compressed.

    Inflating it here keeps one call a chunk, and does not depend on how a version of aiohttp
    treats a stream of thousands of gzip members. `received` counts the bytes so far, unpacked.
    """

    def __init__(self, response: aiohttp.ClientResponse, server: str) -> None:
        self.status = response.status
        self.received = 0
        self._response = response
        self._server = server
        compressed = response.headers.get("Content-Encoding") == "gzip"
        self._inflater = Inflater() if compressed else None

    def close(self) -> None:
        """Let go of the connection, which is kept for others if the body was read to its end."""
        self._response.close()

    async def read_some(self, patience: float) -> bytes | None:
        """The next bytes as soon as any come; empty at the end; None when none came in time."""
        try:
            async with asyncio.timeout(patience):
                return await self._next()
        except aiohttp.ClientError as error:
            raise UnreachableError(describe_failure(error, self._server)) from error
        except TimeoutError:
            return None
        except OSError as error:
            raise UnreachableError(describe_failure(error, self._server)) from error
        except zlib.error as error:
            raise UnreachableError(
                f"{self._server} compresses in a broken way: {error}"
            ) from error

    async def _next(self) -> bytes:
        inflater = self._inflater
        while True:
            piece = inflater.take() if inflater is not None else b""
            if not piece:
                piece = await self._response.content.read(READ_SIZE)
                if inflater is not None and piece:
                    inflater.feed(piece)
                    continue
            elif len(piece) == PIECE:
                await asyncio.sleep(0)  # there is more of it: others get their turn
            self.received += len(piece)
            return piece

    async def read_all(self, most: int = SMALL_LIST) -> bytearray:
        """The whole body, in one buffer; `UnreachableError` when it has more bytes than that."""
        body = bytearray()
        while True:
            chunk = await self.read_some(PATIENCE)
            if chunk is None:
                raise UnreachableError(f"{self._server} stopped in the middle of its answer")
            if not chunk:
                return body
            body += chunk
            if len(body) > most:
                raise UnreachableError(
                    f"{self._server} answered with more than {most} bytes;"
                    " check that the server URL leads to a Kubernetes API server"
                )

    def keep_alive(self) -> None:
        """Have the kernel ask now and then whether the other side still exists."""
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
