"""The response to one request: a status, and a body that arrives in chunks."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from kubeproxy.cluster.client.failures import RequestFailed, UnreachableError, describe_failure
from kubeproxy.cluster.client.resources import SMALL_LIST
from kubeproxy.cluster.client.transport import RawResponse

READ_TIMEOUT = 120.0
"""Seconds between two chunks of a list."""
PIECE = 1024 * 1024
"""At most so much is decompressed at a time."""

_GZIP = 16 + zlib.MAX_WBITS
_WINDOW = 4096
"""What follows a gzip member is copied at its end: at most so much."""


class Inflater:
    """Decompresses gzip that is cut anywhere, piece by piece.

    The API server writes one gzip member for each event of a watch-list, or one for all of them:
    both are streams of members here. A byte can decompress to a thousand, so the input is not
    decompressed at once, but as the output is taken.
    """

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._pending = memoryview(b"")
        self._rest: bytes | memoryview = b""

    def feed(self, data: bytes) -> None:
        """More input, when all output of the input before has been taken."""
        self._pending = memoryview(data)

    def take(self) -> bytes:
        """The next piece; empty when more input is needed. `zlib.error` when it is not gzip."""
        pieces: list[bytes] = []
        room = PIECE
        while room:
            if not self._rest:
                self._rest, self._pending = self._pending[:_WINDOW], self._pending[_WINDOW:]
            if self._member.eof and self._rest:
                self._member = zlib.decompressobj(_GZIP)
            # Without new input too: zlib keeps what did not fit into the last piece.
            piece = self._member.decompress(self._rest, room)
            self._rest = self._member.unused_data or self._member.unconsumed_tail
            if not piece and not self._rest and not self._pending:
                break
            pieces.append(piece)
            room -= len(piece)
        return b"".join(pieces)


class Response:
    """Reads a response, and decompresses it.

    Decompressing it here needs one call a chunk, and does not depend on how a version of aiohttp
    treats a stream of thousands of gzip members. `received` counts the decompressed bytes so far.
    """

    def __init__(self, response: RawResponse, server: str) -> None:
        self.status = response.status
        self.content_type = response.headers.get("content-type", "")
        self.received = 0
        self._response = response
        self._server = server
        compressed = response.headers.get("content-encoding") == "gzip"
        self._inflater = Inflater() if compressed else None

    def close(self) -> None:
        """Leave the rest unread."""
        self._response.close()

    async def read_some(self, seconds: float) -> bytes | None:
        """The next bytes as soon as there are any; empty at the end; None after a timeout."""
        try:
            async with asyncio.timeout(seconds):
                return await self._next()
        except TimeoutError:
            return None
        except (RequestFailed, OSError) as error:
            raise UnreachableError(describe_failure(error, self._server)) from error
        except zlib.error as error:
            raise UnreachableError(f"{self._server} sent invalid gzip data: {error}") from error

    async def _next(self) -> bytes:
        inflater = self._inflater
        while True:
            piece = inflater.take() if inflater is not None else b""
            if not piece:
                piece = await self._response.read()
                if inflater is not None and piece:
                    inflater.feed(piece)
                    continue
            elif len(piece) == PIECE:
                await asyncio.sleep(0)  # there is more of it: let other tasks run
            self.received += len(piece)
            return piece

    async def read_all(self, most: int = SMALL_LIST) -> bytearray:
        """The whole body, in one buffer; `UnreachableError` when it has more bytes than that."""
        body = bytearray()
        async for piece in self.pieces(most):
            body += piece
        return body

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """The body as it comes; `UnreachableError` when it has more bytes than that."""
        while True:
            piece = await self.read_some(READ_TIMEOUT)
            if piece is None:
                raise UnreachableError(f"{self._server} stopped in the middle of its response")
            if not piece:
                return
            if self.received > most:
                raise UnreachableError(
                    f"{self._server} answered with more than {most} bytes;"
                    " check that the server URL leads to a Kubernetes API server"
                )
            yield piece

    def keep_alive(self) -> None:
        """Have it noticed when the peer vanishes while nothing is sent."""
        self._response.keep_alive()
