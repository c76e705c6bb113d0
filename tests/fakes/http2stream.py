"""A stream of HTTP/2 as aiohttp sees a request: the connection that it is on, and the writer."""

import asyncio
from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

if TYPE_CHECKING:
    from fakes.http2front import FrontConnection

_HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "date", "server"}
_BODY_LIMIT = 1 << 20


class FrontStream(AbstractStreamWriter):
    """One stream. It stands for the connection of a request, and for its transport too."""

    ssl_context = None
    peername = None
    sockname = None

    def __init__(self, connection: "FrontConnection", number: int) -> None:
        self._connection = connection
        self._number = number

    # What a request asks of its connection.

    @property
    def transport(self) -> "FrontStream":  # type: ignore[override]  # of what it stands for
        return self

    def get_extra_info(self, _name: str) -> None:
        """Nothing is known of the client."""

    def abort(self) -> None:
        """Reset the stream; the connection stays."""
        self._connection.reset_stream(self._number)

    # What a response writes.

    async def write_headers(self, status_line: str, headers: "CIMultiDict[str]") -> None:
        status = status_line.split(" ", 2)[1]
        kept = [
            (name.lower(), value)
            for name, value in headers.items()
            if name.lower() not in _HOP_BY_HOP
        ]
        self._connection.send_headers(self._number, [(":status", status), *kept])

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        await self._connection.send(self._number, bytes(chunk))

    async def write_eof(self, chunk: bytes = b"") -> None:
        await self.write(chunk)
        self._connection.end(self._number)

    async def drain(self) -> None:
        """Everything is sent already."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        raise NotImplementedError("handlers of the fake compress by themselves")

    def enable_chunking(self) -> None:
        """Frames are chunks enough."""


def request_on(stream: FrontStream, head: dict[str, str], body: bytes) -> web.BaseRequest:
    """The request that has arrived on a stream."""
    names = {name: value for name, value in head.items() if not name.startswith(":")}
    headers = CIMultiDictProxy(CIMultiDict(names))
    message = RawRequestMessage(
        head[":method"],
        head[":path"],
        HttpVersion11,
        headers,
        (),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(head[":path"], encoded=True),
    )
    loop = asyncio.get_running_loop()
    protocol = cast("RequestHandler", stream)
    payload = StreamReader(BaseProtocol(loop), _BODY_LIMIT, loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    task = asyncio.current_task()
    assert task is not None
    return web.BaseRequest(message, payload, protocol, stream, task, loop)
