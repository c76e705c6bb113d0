import asyncio
import zlib

import aiohttp
import pytest

from fakes.apiclient import Client
from fakes.apiencoded import Encoded
from fakes.apiprotobuf import MAGIC, field, frame_of, wrapped
from fakes.apiresources import RESOURCE_OF_KIND
from fakes.apiserver import FakeApiServer
from fakes.apistore import Body, Selection, Store

SERVICE = RESOURCE_OF_KIND["Service"]
NODE = RESOURCE_OF_KIND["Node"]
ALL = Selection()
STREAM = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def named(kind: str, name: str) -> Body:
    return {"kind": kind, "metadata": {"name": name}}


def filled() -> Store:
    store = Store(lambda: "2026-01-01T00:00:00Z")
    for name in "abc":
        store.put(SERVICE, named("Service", name))
    return store


def test_a_whole_list_is_encoded_once_until_something_changes() -> None:
    store = filled()
    encoded = Encoded(store)
    first = encoded.list_of(SERVICE, ALL, store.list(SERVICE, ALL))
    assert encoded.list_of(SERVICE, ALL, store.list(SERVICE, ALL)) is first
    assert zlib.decompress(first.gzipped, wbits=31) == first.plain
    store.put(SERVICE, named("Service", "d"))
    second = encoded.list_of(SERVICE, ALL, store.list(SERVICE, ALL))
    assert b'"name":"d"' in second.plain
    assert b'"name":"d"' not in first.plain


def test_pages_are_never_taken_for_the_whole_list() -> None:
    store = filled()
    encoded = Encoded(store)
    whole = encoded.list_of(SERVICE, ALL, store.list(SERVICE, ALL)).plain
    first = store.list(SERVICE, ALL, limit=2)
    last = store.list(SERVICE, ALL, after=first.next_key, limit=2)
    pages = [encoded.list_of(SERVICE, ALL, page).plain for page in (first, last)]
    assert [each.count(b'"uid"') for each in (whole, *pages)] == [3, 2, 1]


def test_initial_events_are_encoded_again_when_their_own_kind_changes_only() -> None:
    store = filled()
    encoded = Encoded(store)
    first = encoded.initial_of(SERVICE, ALL)
    store.put(NODE, named("Node", "n"))
    assert encoded.initial_of(SERVICE, ALL) is first
    store.delete(SERVICE, ("default", "a"))
    assert encoded.initial_of(SERVICE, ALL).events.count(b"\n") == 2


def test_initial_events_in_protobuf_are_those_in_json() -> None:
    encoded = Encoded(filled())
    lines = encoded.initial_of(SERVICE, ALL).events.splitlines(keepends=True)
    in_protobuf = encoded.initial_of(SERVICE, ALL, protobuf=True)
    assert in_protobuf.events == b"".join(map(frame_of, lines))
    assert encoded.initial_of(SERVICE, ALL, protobuf=True) is in_protobuf


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        pytest.param("EndpointSlice", b"discovery.k8s.io/v1", id="object"),
        pytest.param("EndpointSliceList", b"discovery.k8s.io/v1", id="list"),
        pytest.param("Status", b"v1", id="status"),
    ],
)
def test_protobuf_names_the_group_of_its_objects(kind: str, version: bytes) -> None:
    """Clients in Go look types up by it."""
    named = field(1, version) + field(2, kind.encode())
    assert wrapped(kind, b"").startswith(MAGIC + field(1, named))


class Inflated:
    """The lines of a compressed stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._inflate = zlib.decompressobj(wbits=31)
        self.text = b""

    async def wait_for(self, words: bytes) -> None:
        async with asyncio.timeout(5):
            while words not in self.text:
                self.text += self._inflate.decompress(await self._response.content.readany())


async def test_streams_that_share_their_compressed_beginning_go_on_by_themselves(
    server: FakeApiServer, http: Client
) -> None:
    for name in "abc":
        server.put(named("Service", name))
    server.encode_ahead("/api/v1/services", {})
    streams = []
    for _ in range(2):
        response = await http.request(
            "GET", "/api/v1/services", params=STREAM, headers={"Accept-Encoding": "gzip"}
        )
        streams.append(Inflated(response))
    for stream in streams:
        await stream.wait_for(b"initial-events-end")
    server.put(named("Service", "d"))
    for stream in streams:
        await stream.wait_for(b'"name":"d"')
    assert streams[0].text == streams[1].text
    assert [stream.text.count(b'"ADDED"') for stream in streams] == [4, 4]


async def test_a_watch_knows_what_it_has_sent_and_when(
    server: FakeApiServer, http: Client
) -> None:
    await http.get("/api/v1/services", watch="true")
    await server.wait_watchers(1)
    (watcher,) = server.watchers_of("Service")
    assert server.watchers_of("Node") == []
    server.put(named("Service", "a"))
    assert watcher.unsent > 0
    async with asyncio.timeout(5):
        while watcher.unsent:
            await asyncio.sleep(0.001)
    assert watcher.sent_at == sorted(watcher.sent_at) != []
