"""The API server of a run, a process of its own: `python -m bench.apiprocess SIZE DIRECTORY`.

As a real one it speaks HTTP/2, and HTTP/1.1 with clients that do not, and sends JSON or protobuf.
It loads the cluster, says where it listens, and obeys commands, one JSON line each on standard
input, answered by one line on standard output. Changes are prepared before they are sent, so that
the time at which they are handed to the sockets is not that of their making.
"""

import asyncio
import contextlib
import sys
import time
from enum import Enum
from pathlib import Path

import msgspec

from bench.changes import SliceChange
from bench.clusters import (
    Document,
    Size,
    documents,
    node_document,
    parse_size,
    service_cidr_document,
    slice_document,
)
from fakes.apiserver import FakeApiServer
from fakes.apistreams import Watcher
from fakes.certs import server_tls
from fakes.http2front import Http2Front
from kubeproxy.cluster.client.resources import ENDPOINT_SLICES, SERVICES, list_query

TIMEOUT = 600.0
TOGETHER = 20
"""So many changes are queued before the streams are served again."""


class Wait(Enum):
    """What to wait for."""

    CLOSED = "no watch is open, and the initial events of the next one are encoded"
    SYNCED = "slices are watched, and all of them have been sent"


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do: prepare changes, send what is prepared, or wait."""

    prepare: tuple[SliceChange, ...] = ()
    send: bool = False
    wait: Wait | None = None


class Listening(msgspec.Struct, frozen=True):
    """Where the server is."""

    url: str
    authority: str


class Sent(msgspec.Struct, frozen=True):
    """When the first and the last change were handed to a socket, on the monotonic clock."""

    first: float = 0.0
    last: float = 0.0


def main(size: Size, directory: Path) -> None:
    """Serve until standard input ends."""
    asyncio.run(_serve(size, directory))


async def _serve(size: Size, directory: Path) -> None:
    tls, authority = server_tls(directory)
    async with FakeApiServer() as server, Http2Front(server, tls) as front:
        for document in (node_document(), service_cidr_document(), *documents(size)):
            server.put(document)
        _encode_ahead(server)
        _say(Listening(front.url, str(authority.cert)))
        prepared: list[Document] = []
        async for line in await _lines():
            command = msgspec.json.decode(line, type=Command)
            sent = Sent()
            if command.prepare:
                prepared = [
                    slice_document(change.service, change.number, change.serials)
                    for change in command.prepare
                ]
            if command.wait is not None:
                await _wait(server, command.wait)
            if command.send:
                sent = await _send(server, prepared)
            _say(sent)


def _encode_ahead(server: FakeApiServer) -> None:
    """Encode the initial events before the proxy's clock starts."""
    for resource in (SERVICES, ENDPOINT_SLICES):
        server.encode_ahead(resource.path, dict(list_query(resource)))


async def _wait(server: FakeApiServer, what: Wait) -> None:
    async with asyncio.timeout(TIMEOUT):
        if what is Wait.CLOSED:
            await server.wait_watchers(0, within=TIMEOUT)
            _encode_ahead(server)
        else:
            while not any(map(_has_all, server.watchers_of("EndpointSlice"))):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)


def _has_all(watcher: Watcher) -> bool:
    """Whether all has been sent; a watch after a list has nothing to send before an event."""
    return not watcher.unsent and (watcher.initial is None or bool(watcher.sent_at))


async def _send(server: FakeApiServer, prepared: list[Document]) -> Sent:
    began = time.monotonic()
    for number, document in enumerate(prepared, 1):
        server.put(document)
        if number % TOGETHER == 0:
            await asyncio.sleep(0)
    watchers = server.watchers_of("EndpointSlice")
    while any(watcher.unsent for watcher in watchers):  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.001)
    times = [at for watcher in watchers for at in watcher.sent_at if at >= began]
    return Sent(min(times), max(times))


def _say(answer: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


async def _lines() -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(parse_size(sys.argv[1]), Path(sys.argv[2]))
