import asyncio
import time

import aiohttp
import msgspec
import pytest

from fakes.apiclient import Client
from fakes.apifaults import HALF_AN_EVENT
from fakes.apiserver import FakeApiServer

SERVICES = "/api/v1/services"
STREAM = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def open_watch(server: FakeApiServer, http: Client) -> aiohttp.ClientResponse:
    response = await http.get(SERVICES, watch="true", resourceVersion="1000")
    await server.wait_watchers(1)
    return response


async def read_all(response: aiohttp.ClientResponse) -> bytes:
    return await asyncio.wait_for(response.content.read(), 5)


async def test_a_status_is_answered_so_many_times_where_it_matches(
    server: FakeApiServer, http: Client
) -> None:
    server.faults.status("/services", 503, times=2, retry_after=1)
    other = await http.get("/api/v1/nodes")
    answers = [await http.get(SERVICES) for _ in range(3)]
    assert [answer.status for answer in (other, *answers)] == [200, 503, 503, 200]
    assert [answer.headers.get("Retry-After") for answer in answers] == ["1", "1", None]
    assert (await answers[0].json())["reason"] == "ServiceUnavailable"


async def test_a_status_can_be_for_watches_only_and_for_ever(
    server: FakeApiServer, http: Client
) -> None:
    server.faults.status("/services*watch=true", 403, times=None)
    for _ in range(3):
        assert (await http.get(SERVICES, watch="true")).status == 403
    assert (await http.get(SERVICES)).status == 200
    server.faults.clear()
    assert (await http.get(SERVICES, watch="true")).status == 200


async def test_watch_lists_are_refused_as_a_server_without_them_does(
    server: FakeApiServer, http: Client
) -> None:
    server.faults.refuse_watchlist(times=1)
    first, second = [await http.get(SERVICES, **STREAM) for _ in range(2)]
    assert (first.status, second.status) == (422, 200)


async def test_watch_lists_are_refused_as_old_storage_does(
    server: FakeApiServer, http: Client
) -> None:
    server.faults.refuse_watchlist(old_storage=True)
    response = await http.get(SERVICES, **STREAM)
    event = msgspec.json.decode(await read_all(response))
    assert (
        response.status,
        event["type"],
        event["object"]["code"],
        event["object"]["reason"],
    ) == (200, "ERROR", 500, "InternalError")


async def test_an_error_event_can_be_asked_for(server: FakeApiServer, http: Client) -> None:
    server.faults.error_event("/services", 410)
    listed = await http.get(SERVICES)
    watched = await http.get(SERVICES, watch="true", resourceVersion="1000")
    event = msgspec.json.decode(await read_all(watched))
    assert (listed.status, event["type"], event["object"]["reason"]) == (200, "ERROR", "Expired")


@pytest.mark.parametrize("mid_line", [True, False])
async def test_streams_are_cut(server: FakeApiServer, http: Client, *, mid_line: bool) -> None:
    response = await open_watch(server, http)
    server.faults.cut_streams(mid_line=mid_line)
    with pytest.raises(aiohttp.ClientError):
        await read_all(response)
    await server.wait_watchers(0)


async def test_streams_end_with_half_an_event(server: FakeApiServer, http: Client) -> None:
    response = await open_watch(server, http)
    server.faults.truncate()
    assert await read_all(response) == HALF_AN_EVENT


async def test_streams_end_cleanly_on_demand(server: FakeApiServer, http: Client) -> None:
    response = await open_watch(server, http)
    server.faults.end_streams()
    assert await read_all(response) == b""


async def test_garbage_is_written_and_the_stream_goes_on(
    server: FakeApiServer, http: Client
) -> None:
    response = await open_watch(server, http)
    server.faults.garbage(b"nonsense\n")
    server.put({"kind": "Service", "metadata": {"name": "a"}})
    server.faults.fail_streams(500)
    lines = (await read_all(response)).splitlines()
    assert lines[0] == b"nonsense"
    assert [msgspec.json.decode(line)["type"] for line in lines[1:]] == ["ADDED", "ERROR"]


async def test_answers_can_be_slow(server: FakeApiServer, http: Client) -> None:
    server.put({"kind": "Service", "metadata": {"name": "a", "labels": {"x": "y" * 1000}}})
    server.faults.slow(10_000)
    started = time.monotonic()
    body = await read_all(await http.get(SERVICES))
    took = time.monotonic() - started
    assert took > len(body) / 10_000 * 0.7
    server.faults.slow(None)
    assert body == await read_all(await http.get(SERVICES))
