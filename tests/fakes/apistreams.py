"""A watch that is being served: what is queued for it, and how it goes out."""

import asyncio
import socket
import struct
import time
import zlib
from collections.abc import Callable
from enum import Enum

import msgspec
from aiohttp import web

from fakes.apierrors import ApiError, status_of
from fakes.apioptions import Options
from fakes.apiprotobuf import frame_of
from fakes.apiresources import Resource
from fakes.apistore import Change, event_for, whole

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_SLICE = 64 * 1024


class Ending(Enum):
    """How a stream ends."""

    CLEAN = "the last chunk is sent"
    RESET = "the connection is reset"


class Watcher:
    """The queue of one watch. What was queued for it stays, whatever is compacted later."""

    def __init__(
        self, resource: Resource, options: Options, start: int, *, protobuf: bool = False
    ) -> None:
        self.resource = resource
        self.protobuf = protobuf
        self.options = options
        self.start = start
        self.queue: asyncio.Queue[bytes | Ending] = asyncio.Queue()
        self.initial: Initial | None = None
        """What comes before all that is queued."""
        self.unsent = 0
        """Bytes that are queued and not handed to the socket yet."""
        self.sent_at: list[float] = []
        """When each piece was about to be handed to the socket, on the monotonic clock."""

    def notify(self, change: Change) -> None:
        """Queue the event for a change, if this watch sees it."""
        if change.resource != self.resource or change.version <= self.start:
            return
        event = event_for(change, self.options.selection)
        if event is not None:
            self.put_event(event_line(self.resource, *event))

    def put_event(self, line: bytes) -> None:
        """Queue an event, in the encoding of the watch."""
        self.put(frame_of(line) if self.protobuf else line)

    def put(self, line: bytes) -> None:
        """Queue bytes."""
        self.unsent += len(line)
        self.queue.put_nowait(line)

    def bookmark(self, version: int, *, initial_end: bool = False) -> None:
        """Queue a bookmark, if this watch allows them."""
        if self.options.bookmarks:
            self.put_event(bookmark_line(self.resource, version, initial_end=initial_end))

    def fail(self, error: ApiError) -> None:
        """Queue an ERROR event and the end."""
        self.put_event(error_line(error))
        self.queue.put_nowait(Ending.CLEAN)


def event_line(resource: Resource, type_: str, encoded: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"' + type_.encode() + b'","object":' + whole(resource, encoded) + b"}\n"


def bookmark_line(resource: Resource, version: int, *, initial_end: bool) -> bytes:
    """A bookmark: an object of the right kind of which only the version counts."""
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    body = {"metadata": metadata, "spec": {}, "status": {}}
    return event_line(resource, "BOOKMARK", msgspec.json.encode(body))


def error_line(error: ApiError) -> bytes:
    """An ERROR event."""
    return msgspec.json.encode({"type": "ERROR", "object": status_of(error)}) + b"\n"


class Initial:
    """The events with which streams of one version begin, compressed once for all of them."""

    def __init__(self, events: bytes) -> None:
        self.events = events
        self._gzip: tuple[bytes, zlib._Compress] | None = None

    def gzipped(self) -> "tuple[bytes, zlib._Compress]":
        """The events compressed, and a compressor that goes on from there."""
        if self._gzip is None:
            gzip = compressor()
            self._gzip = gzip.compress(self.events) + gzip.flush(zlib.Z_SYNC_FLUSH), gzip
        data, gzip = self._gzip
        return data, gzip.copy()


def compressor() -> "zlib._Compress":
    """Fast rather than thorough, as the API server's."""
    return zlib.compressobj(level=1, wbits=31)


class Outlet:
    """Writes a response in pieces: each inflatable at once if gzipped, optionally slowed down."""

    def __init__(
        self, response: web.StreamResponse, *, gzip: bool, rate: Callable[[], float | None]
    ) -> None:
        self._response = response
        self._rate = rate
        self._gzip = compressor() if gzip else None
        if gzip:
            response.headers["Content-Encoding"] = "gzip"

    async def begin(self, initial: Initial) -> None:
        """Send what a stream begins with."""
        if self._gzip is None:
            await self._send(initial.events)
        else:
            data, self._gzip = initial.gzipped()
            await self._send(data)

    async def write(self, data: bytes) -> None:
        """Send the data, completely and at once unless the rate forbids it."""
        if self._gzip is not None:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rate = self._rate()
            size = _SLICE if rate is None else max(1, int(rate / 20))
            await self._response.write(bytes(rest[:size]))
            rest = rest[size:]
            if rate is not None:
                await asyncio.sleep(min(size / rate, 1))

    async def finish(self) -> None:
        """End the response as HTTP wants it."""
        if self._gzip is not None:
            await self._response.write(self._gzip.flush())
        await self._response.write_eof()


async def serve_watch(
    request: web.BaseRequest, watcher: Watcher, outlet: Outlet, deadline: float | None
) -> None:
    """Send what is queued until the deadline (clean end), an ending, or the client's leave."""
    try:
        async with asyncio.timeout_at(deadline):
            if watcher.initial is not None:
                await outlet.begin(watcher.initial)
            while True:
                piece = await _next_piece(watcher.queue)
                if isinstance(piece, Ending):
                    break
                watcher.sent_at.append(time.monotonic())
                await outlet.write(piece)
                watcher.unsent -= len(piece)
    except TimeoutError:
        piece = Ending.CLEAN
    except ConnectionResetError:  # the client left
        return
    if piece is Ending.RESET:
        reset(request.transport)
    else:
        await outlet.finish()


async def _next_piece(queue: asyncio.Queue[bytes | Ending]) -> bytes | Ending:
    """All bytes that wait in the queue as one piece, or the ending at its head."""
    piece = await queue.get()
    if isinstance(piece, Ending):
        return piece
    pieces = [piece]
    while not queue.empty():
        following = queue.get_nowait()
        if isinstance(following, Ending):
            queue.put_nowait(following)
            break
        pieces.append(following)
    return b"".join(pieces)


def reset(transport: asyncio.Transport | None) -> None:
    """Close a connection with a TCP reset."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
