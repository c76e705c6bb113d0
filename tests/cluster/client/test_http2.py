"""Watching over HTTP/2: one connection for all, and what can happen to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import h2.errors
import pytest

from cluster.following import Consumer, following, service
from fakes.apiserver import FakeApiServer
from fakes.certs import server_tls
from fakes.http2front import Http2Front
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.http_client import HttpClient, RateLimit
from kubeproxy.cluster.client.observed import ignore
from kubeproxy.cluster.client.routes import may_be_http2, pings_of, route_to
from kubeproxy.cluster.client.transport import Pings
from kubeproxy.cluster.objects.meta import Kind
from waiting import until

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
async def front(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Http2Front]:
    tls, _ = server_tls(tmp_path)
    async with Http2Front(server, tls) as running:
        yield running


def access_to(front: Http2Front, tmp_path: Path, proxy: str = "") -> Access:
    cluster = ClusterEntry(certificate_authority=str(tmp_path / "ca.crt"), proxy_url=proxy)
    return Access(server=front.url, cluster=cluster)


@contextlib.asynccontextmanager
async def synced(access: Access) -> AsyncIterator[Consumer]:
    async with following(access, *Kind) as consumer:
        for kind in Kind:
            await consumer.wait_synced(kind)
        yield consumer


def lists(server: FakeApiServer) -> int:
    """How many times all objects were listed."""
    return sum(
        "watch" not in request.query or "sendInitialEvents" in request.query
        for request in server.requests
    )


async def test_all_watches_share_one_connection(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    server.put(service("a"))
    async with synced(access_to(front, tmp_path)) as consumer:
        assert {"a"} == consumer.names()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.delete("Service", "ns", "a")
        await consumer.wait_names("b")
        assert len(front.connections) == 1
    assert front.accepted == 1
    await until(lambda: not front.connections)


async def test_a_list_larger_than_the_windows_arrives(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    for number in range(60):
        server.put(service(f"s{number}", note="x" * 100_000))
    cluster = ClusterEntry(
        certificate_authority=str(tmp_path / "ca.crt"), disable_compression=True
    )
    async with following(Access(server=front.url, cluster=cluster)) as consumer:
        await consumer.wait_synced()
        assert len(consumer.names()) == 60
        server.put(service("later"))
        await consumer.wait(lambda: "later" in consumer.names())


async def test_a_body_larger_than_the_servers_window_is_sent(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    body = b'{"metadata":{"name":"p"},"x":"' + b"y" * 300_000 + b'"}'
    access = access_to(front, tmp_path)
    path = "/api/v1/namespaces/ns/pods"
    async with (
        HttpClient(access, RateLimit(-1), {}, ignore) as client,
        client.write("POST", path, body, "application/json") as response,
    ):
        assert response.status == 201
        await response.read_all()
    stored = server.get("Pod", "ns", "p")
    assert stored is not None
    assert stored["x"] == "y" * 300_000


async def test_a_server_that_goes_away_serves_what_is_under_way(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        requests = len(server.requests)
        front.go_away(served=True)
        server.put(service("on-the-old-connection"))
        await consumer.wait_names("on-the-old-connection")
        assert front.accepted == 1
        assert requests == len(server.requests)
        server.faults.end_streams()  # the watches are opened again, on another connection
        await until(lambda: front.accepted == 2 and len(front.connections) == 1)
        await server.wait_watchers(4)
        server.put(service("on-the-new-one"))
        await consumer.wait_names("on-the-old-connection", "on-the-new-one")
        assert consumer.lists() == 1


async def test_a_server_that_goes_away_at_once_is_connected_again_without_a_relist(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        front.go_away(served=False)
        await until(lambda: front.accepted == 2)
        await server.wait_watchers(4)
        server.put(service("a"))
        await consumer.wait_names("a")
        assert lists(server) == 4


async def test_reset_streams_are_resumed_on_the_same_connection(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        front.reset_streams()
        await server.wait_watchers(0)
        server.put(service("a"))
        await consumer.wait_names("a")
        await server.wait_watchers(4)
    assert front.accepted == 1
    assert lists(server) == 4


async def test_a_cut_stream_leaves_the_others_alone(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        server.faults.cut_streams(mid_line=True)
        await consumer.wait(lambda: len(consumer.attempts) == 8)
        server.put(service("a"))
        await consumer.wait_names("a")
    assert front.accepted == 1
    assert lists(server) == 4


async def test_a_refused_stream_is_sent_again(front: Http2Front, tmp_path: Path) -> None:
    front.refuse_next = 1
    async with following(access_to(front, tmp_path)) as consumer:
        await consumer.wait_synced()
        assert [attempt.code for attempt in consumer.attempts] == ["200"]
    assert front.accepted == 2


async def test_a_restart_of_the_server_causes_no_relist(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    server.put(service("a"))
    async with synced(access_to(front, tmp_path)) as consumer:
        await front.pause()
        await consumer.wait(lambda: sum(a.code == "<error>" for a in consumer.attempts) >= 4)
        server.put(service("b"))
        await front.resume()
        await consumer.wait_names("a", "b")
        await server.wait_watchers(4)
        assert len(front.connections) == 1
    assert lists(server) == 4


async def test_a_server_without_http2_is_not_addressed_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls, authority = server_tls(tmp_path)
    async with FakeApiServer(tls) as server:
        cluster = ClusterEntry(certificate_authority=str(authority.cert))
        async with synced(Access(server=server.url, cluster=cluster)):
            pass
    assert "Error handling request" not in caplog.text


@pytest.fixture
def short_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    pings = Pings(0.2, 0.1)
    monkeypatch.setattr("kubeproxy.cluster.client.http_client.pings_of", lambda _: pings)


@pytest.mark.usefixtures("short_pings")
async def test_a_quiet_server_is_pinged_and_stays(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        await until(lambda: front.connections[0].pings >= 3)
        server.put(service("a"))
        await consumer.wait_names("a")
    assert front.accepted == 1


@pytest.mark.usefixtures("short_pings")
async def test_a_server_that_answers_no_ping_is_given_up(
    server: FakeApiServer,
    front: Http2Front,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        front.deaf = True
        await until(lambda: not front.connections)
        front.deaf = False
        server.put(service("a"))
        await consumer.wait_names("a")
    assert front.accepted >= 2
    assert lists(server) == 4
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http1"),
        pytest.param(bytes(9), id="data-on-the-connection"),
        pytest.param(b"\xff\xff\xff" + bytes(6), id="a-huge-frame"),
        pytest.param(b"\0\0\4\7" + bytes(9), id="a-short-goaway"),
        pytest.param(b"\0\0\1\1\4\0\0\0\7\xff", id="headers-that-do-not-decode"),
    ],
)
async def test_frames_that_are_none_lead_to_another_connection(
    server: FakeApiServer, front: Http2Front, tmp_path: Path, data: bytes
) -> None:
    async with synced(access_to(front, tmp_path)) as consumer:
        front.write(data)
        await until(lambda: front.accepted == 2)
        server.put(service("a"))
        await consumer.wait_names("a")
    assert lists(server) == 4


async def test_errors_of_the_server_are_read(
    server: FakeApiServer, front: Http2Front, tmp_path: Path
) -> None:
    server.faults.status("/services", 429, times=2, retry_after=0)
    async with following(access_to(front, tmp_path)) as consumer:
        await consumer.wait_synced()
        assert [attempt.code for attempt in consumer.attempts] == ["429", "429", "200"]
    assert front.accepted == 1


@pytest.mark.parametrize("code", [h2.errors.ErrorCodes.CANCEL, h2.errors.ErrorCodes.NO_ERROR])
async def test_whatever_the_reason_of_a_reset_the_watch_goes_on(
    server: FakeApiServer, front: Http2Front, tmp_path: Path, code: h2.errors.ErrorCodes
) -> None:
    async with following(access_to(front, tmp_path)) as consumer:
        await consumer.wait_synced()
        front.reset_streams(code)
        server.put(service("a"))
        await consumer.wait_names("a")


async def test_a_client_that_is_closed_while_it_connects_leaves_nothing() -> None:
    connected = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(say_nothing, "127.0.0.1")
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        async with following(Access(server=f"https://127.0.0.1:{port}")):
            await connected.wait()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, Pings(30, 15), id="upstreams"),
        pytest.param({"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "7"}, Pings(7, 15), id="idle"),
        pytest.param({"HTTP2_PING_TIMEOUT_SECONDS": "3"}, Pings(30, 3), id="answer"),
        pytest.param({"HTTP2_PING_TIMEOUT_SECONDS": "soon"}, Pings(30, 15), id="no-number"),
    ],
)
def test_when_pings_are_sent(environ: Mapping[str, str], expected: Pings) -> None:
    assert expected == pings_of(environ)


@pytest.mark.parametrize(
    ("server", "proxy", "environ", "expected"),
    [
        pytest.param("https://api", "", {}, True, id="tls"),
        pytest.param("http://api", "", {}, False, id="plain"),
        pytest.param("https://api", "http://p:1", {}, True, id="through-a-tunnel"),
        pytest.param("https://api", "https://p:1", {}, False, id="tls-in-tls"),
        pytest.param("https://api", "", {"DISABLE_HTTP2": "1"}, False, id="switched-off"),
        pytest.param("https://api", "", {"DISABLE_HTTP2": ""}, True, id="an-empty-switch"),
    ],
)
def test_when_http2_is_offered(
    server: str, proxy: str, environ: Mapping[str, str], expected: bool
) -> None:
    route = route_to(Access(server=server, cluster=ClusterEntry(proxy_url=proxy)), environ)
    assert expected is may_be_http2(route, environ)
    assert route.port == (443 if server.startswith("https") else 80)
