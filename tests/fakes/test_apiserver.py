import asyncio
import time
import zlib

import aiohttp
import msgspec
import pytest

from fakes.apiclient import Client, client_of
from fakes.apiserver import FakeApiServer
from fakes.apistore import Body

STREAM = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
OURS = {"labelSelector": "!service.kubernetes.io/service-proxy-name"}
SERVICES = "/api/v1/services"


def service(name: str, **labels: str) -> Body:
    metadata = {"name": name, "labels": {k.replace("__", "/"): v for k, v in labels.items()}}
    return {"kind": "Service", "apiVersion": "v1", "metadata": metadata}


class Stream:
    """The events of one watch, read line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def event(self) -> tuple[str, Body]:
        line = await asyncio.wait_for(self.response.content.readline(), 5)
        event = msgspec.json.decode(line)
        return event["type"], event["object"]

    async def names(self, count: int) -> list[str]:
        """`TYPE name` of so many events."""
        events = [await self.event() for _ in range(count)]
        return [f"{type_} {_metadata(obj).get('name', '')}".strip() for type_, obj in events]

    async def ends(self) -> bool:
        return await asyncio.wait_for(self.response.content.read(), 5) == b""


def _metadata(obj: Body) -> Body:
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    return metadata


async def watch(http: Client, **query: str) -> Stream:
    response = await http.get(SERVICES, **({"watch": "true"} | query))
    assert response.status == 200
    return Stream(response)


async def test_lists_have_items_without_kinds_and_the_version(
    server: FakeApiServer, http: Client
) -> None:
    version = server.put(service("a"))
    answer = await (await http.get(SERVICES)).json()
    assert (answer["kind"], answer["apiVersion"]) == ("ServiceList", "v1")
    assert {"resourceVersion": str(version)} == answer["metadata"]
    assert [{"metadata"}] == [set(item) for item in answer["items"]]


async def test_an_object_by_name_has_its_kind(server: FakeApiServer, http: Client) -> None:
    server.put(service("a"))
    answer = await (await http.get("/api/v1/namespaces/default/services/a")).json()
    assert (answer["kind"], answer["apiVersion"]) == ("Service", "v1")


async def test_a_list_is_paged_at_one_version_until_that_expires(
    server: FakeApiServer, http: Client
) -> None:
    for name in "abc":
        server.put(service(name))
    first = await (await http.get(SERVICES, limit="2")).json()
    server.put(service("d"))
    following = {"limit": "2", "continue": first["metadata"]["continue"]}
    second = await (await http.get(SERVICES, **following)).json()
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    server.compact()
    expired = await http.get(SERVICES, **following)
    assert (expired.status, (await expired.json())["reason"]) == (410, "Expired")


@pytest.mark.parametrize("paginated", [True, False])
async def test_version_zero_is_paged_only_without_a_watch_cache(
    server: FakeApiServer, http: Client, *, paginated: bool
) -> None:
    server.faults.paginate_cached = paginated
    server.put(service("a"))
    server.put(service("b"))
    query = {"limit": "1", "resourceVersion": "0"}
    answer = await (await http.get(SERVICES, **query)).json()
    assert paginated == ("continue" in answer["metadata"])


async def test_a_version_from_the_future_is_too_large(http: Client) -> None:
    response = await http.get(SERVICES, resourceVersion="99999999")
    causes = (await response.json())["details"]["causes"]
    assert (response.status, causes[0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_a_watch_starts_in_the_past_and_goes_on(server: FakeApiServer, http: Client) -> None:
    past = server.put(service("a"))
    server.put(service("b"))
    stream = await watch(http, resourceVersion=str(past))
    server.put(service("a"))
    server.delete("Service", "default", "b")
    assert await stream.names(3) == ["ADDED b", "MODIFIED a", "DELETED b"]


async def test_leaving_the_selection_is_a_deletion_for_those_who_watch_it(
    server: FakeApiServer, http: Client
) -> None:
    version = server.put(service("a"))
    stream = await watch(http, resourceVersion=str(version), **OURS)
    server.put(service("a", service__x="y", **{"service.kubernetes.io__service-proxy-name": "z"}))
    server.put(service("a"))
    assert await stream.names(2) == ["DELETED a", "ADDED a"]


async def test_an_expired_version_is_an_error_event_and_the_end(
    server: FakeApiServer, http: Client
) -> None:
    server.put(service("a"))
    server.compact()
    stream = await watch(http, resourceVersion="1")
    type_, status = await stream.event()
    assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert await stream.ends()


async def test_a_watch_from_the_future_is_silent_until_then(
    server: FakeApiServer, http: Client
) -> None:
    stream = await watch(http, resourceVersion=str(server.store.version + 1))
    server.put(service("a"))
    server.put(service("b"))
    assert await stream.names(1) == ["ADDED b"]


async def test_a_streamed_list_ends_with_the_marked_bookmark_and_goes_on(
    server: FakeApiServer, http: Client
) -> None:
    server.put(service("a"))
    version = server.put(service("b"))
    stream = await watch(http, **STREAM)
    assert await stream.names(2) == ["ADDED a", "ADDED b"]
    type_, bookmark = await stream.event()
    assert (type_, bookmark["kind"], _metadata(bookmark)) == (
        "BOOKMARK",
        "Service",
        {
            "resourceVersion": str(version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    )
    server.put(service("c"))
    assert await stream.names(1) == ["ADDED c"]


async def test_a_streamed_list_of_the_future_fails_in_the_stream(
    http: Client,
) -> None:
    stream = await watch(http, **STREAM, resourceVersion="99999999")
    type_, status = await stream.event()
    assert (type_, status["code"]) == ("ERROR", 504)


async def test_bookmarks_go_to_those_who_allow_them(server: FakeApiServer, http: Client) -> None:
    version = str(server.put(service("a")))
    allowing = await watch(http, resourceVersion=version, allowWatchBookmarks="true")
    other = await watch(http, resourceVersion=version)
    await server.wait_watchers(2)
    server.bookmark()
    server.put(service("b"))
    assert await allowing.names(2) == ["BOOKMARK", "ADDED b"]
    assert await other.names(1) == ["ADDED b"]


async def test_bookmarks_come_by_themselves() -> None:
    async with (
        FakeApiServer(bookmark_every=0.01) as server,
        client_of(server.url) as http,
    ):
        version = str(server.store.version)
        stream = await watch(http, resourceVersion=version, allowWatchBookmarks="true")
        assert await stream.names(2) == ["BOOKMARK", "BOOKMARK"]


async def test_a_watch_ends_cleanly_when_its_time_is_over(
    server: FakeApiServer, http: Client
) -> None:
    stream = await watch(http, resourceVersion="5000", timeoutSeconds="0")
    assert await stream.ends()
    await server.wait_watchers(0)


async def test_a_client_that_leaves_is_noticed(server: FakeApiServer, http: Client) -> None:
    stream = await watch(http, resourceVersion="5000")
    await server.wait_watchers(1)
    stream.response.close()
    await server.wait_watchers(0)


async def test_large_lists_and_streamed_lists_are_compressed_when_offered(
    server: FakeApiServer, http: Client
) -> None:
    for number in range(200):
        server.put(service(f"{number:03}", filler="x" * 1000))
    offer = {"Accept-Encoding": "gzip"}
    plain = await http.get(SERVICES)
    listed = await http.request("GET", SERVICES, headers=offer)
    small = await http.request("GET", "/api/v1/nodes", headers=offer)
    stream = await http.request("GET", SERVICES, headers=offer, params=STREAM)
    encodings = [r.headers.get("Content-Encoding") for r in (plain, listed, small, stream)]
    assert encodings == [None, "gzip", None, "gzip"]
    assert await plain.read() == zlib.decompress(await listed.read(), wbits=31)
    inflator = zlib.decompressobj(wbits=31)
    lines = b""
    while b"initial-events-end" not in lines:
        lines += inflator.decompress(await asyncio.wait_for(stream.content.readany(), 5))
    assert lines.count(b"\n") == 201


async def test_eight_thousand_objects_are_listed_quickly(
    server: FakeApiServer, http: Client
) -> None:
    filler = "x" * 5000
    for number in range(8000):
        server.put(service(f"s{number}", filler=filler))
    started = time.monotonic()
    body = await (await http.get(SERVICES)).read()
    assert len(body) > 40_000_000
    assert time.monotonic() - started < 5


async def test_events_are_recorded(server: FakeApiServer, http: Client) -> None:
    event = {
        "metadata": {"name": "n1.17", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kube-proxy",
        "reportingInstance": "kube-proxy-n1",
        "action": "StartKubeProxy",
        "reason": "Starting",
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    created = await http.request("POST", path, json=event)
    patched = await http.request(
        "PATCH",
        f"{path}/n1.17",
        json={"series": {"count": 2}},
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )
    assert (created.status, patched.status) == (201, 200)
    assert [event["series"] for event in server.objects("Event")] == [{"count": 2}]


async def test_writes_reach_the_watchers(server: FakeApiServer, http: Client) -> None:
    stream = await watch(http, resourceVersion=str(server.store.version))
    path = "/api/v1/namespaces/default/services"
    await http.request("POST", path, json=service("a"))
    await http.request("POST", path, json=service("dry"), params={"dryRun": "All"})
    await http.request("PUT", f"{path}/a", json=server.get("Service", "default", "a"))  # no change
    await http.request("PUT", f"{path}/a", json=service("a", x="y"))
    await http.request("DELETE", f"{path}/a")
    assert await stream.names(3) == ["ADDED a", "MODIFIED a", "DELETED a"]
    assert server.get("Service", "default", "a") is None


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v1/secrets", 404, id="a-resource-that-is-not-served"),
        pytest.param("GET", "/api/v1/namespaces/default/services/a", 404, id="no-such-object"),
        pytest.param("DELETE", "/api/v1/nodes/a", 404, id="delete-what-is-not-there"),
        pytest.param("DELETE", "/api/v1/nodes", 415, id="delete-a-collection"),
        pytest.param("POST", "/api/v1/nodes", 415, id="a-body-that-is-not-json"),
        pytest.param("GET", "/api", 200, id="discovery"),
        pytest.param("GET", "/apis/discovery.k8s.io/v1", 200, id="discovery-of-a-group"),
        pytest.param("GET", "/healthz", 200, id="health"),
        pytest.param("GET", "/openapi/v2", 404, id="no-old-openapi"),
    ],
)
async def test_answers_to_single_requests(http: Client, method: str, path: str, code: int) -> None:
    assert code == (await http.request(method, path)).status


async def test_requests_are_recorded(server: FakeApiServer, http: Client) -> None:
    await http.request("GET", SERVICES, params={"limit": "500"}, headers={"User-Agent": "me"})
    request = server.requests[0]
    assert (
        request.method,
        request.path,
        request.query,
        request.headers["user-agent"],
    ) == ("GET", SERVICES, {"limit": "500"}, "me")


async def test_a_prefix_is_part_of_every_path() -> None:
    async with (
        FakeApiServer(prefix="/k8s") as server,
        client_of(server.url.removesuffix("/k8s")) as http,
    ):
        inside, outside = await http.get("/k8s/version"), await http.get("/version")
        assert (inside.status, outside.status) == (200, 404)


async def test_the_server_comes_back_on_the_same_port(server: FakeApiServer, http: Client) -> None:
    stream = await watch(http, resourceVersion="5000")
    url = server.url
    await server.pause()
    with pytest.raises(aiohttp.ClientError):
        await stream.event()
    with pytest.raises(aiohttp.ClientConnectorError):
        await http.get(SERVICES)
    await server.resume()
    assert (url, 200) == (server.url, (await http.get(SERVICES)).status)
