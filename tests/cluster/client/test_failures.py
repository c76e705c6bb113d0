"""What operators read when a server cannot be reached."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cluster.following import following, service
from fakes.apiserver import FakeApiServer
from fakes.certs import server_tls
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.failures import describe_failure, describe_refusal
from kubeproxy.cluster.client.status import Status

pytestmark = pytest.mark.usefixtures("short_waits")


async def error_line(access: Access, capsys: pytest.CaptureFixture[str]) -> str:
    async with following(access) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "Traceback" not in line
    return line


async def test_a_name_that_does_not_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    line = await error_line(Access(server="https://api.invalid:6443"), capsys)
    assert "the name of https://api.invalid:6443 cannot be resolved (" in line
    assert "check the server URL and the node's DNS" in line


async def test_a_refused_connection(capsys: pytest.CaptureFixture[str]) -> None:
    line = await error_line(Access(server="https://127.0.0.1:1"), capsys)
    assert "cannot connect to https://127.0.0.1:1 (connection refused: is the API server" in line


async def test_a_proxy_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    access = Access(server="https://api", cluster=ClusterEntry(proxy_url="http://127.0.0.1:1"))
    line = await error_line(access, capsys)
    assert "the proxy to https://api cannot be reached (connection refused)" in line
    assert "check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY" in line


@pytest.fixture
async def odd_server() -> AsyncIterator[str]:
    """A server that answers everything with its own idea of HTTP; the URL says which."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1].decode()
        answers = {
            "/closed": b"",
            "/ssh": b"SSH-2.0-OpenSSH\r\n\r\n",
            "/cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
            "/zip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        }
        writer.write(next(text for start, text in answers.items() if path.startswith(start)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/closed", "closed the connection without a response", id="says-nothing"),
        pytest.param("/ssh", "does not speak HTTP as expected; check its port", id="not-http"),
        pytest.param("/cut", "closed the connection in the middle of its response", id="cut"),
        pytest.param("/zip", "sent invalid gzip data: Error -3", id="not-gzip"),
    ],
)
async def test_servers_that_are_none(
    odd_server: str, path: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with following(Access(server=odd_server + path), watch_list=False) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    assert expected in capsys.readouterr().err.splitlines()[0]


async def test_a_server_that_stops_in_the_middle(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.client.response.READ_TIMEOUT", 0.05)
    server.faults.slow(1)
    async with following(server, watch_list=False) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{server.url} stopped in the middle of its response" in line


async def test_requests_go_through_a_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeApiServer() as proxy:
        access = Access(server="http://far.invalid:1", cluster=ClusterEntry(proxy_url=proxy.url))
        async with following(access) as consumer:
            await consumer.wait_synced()
        assert proxy.requests
    assert not capsys.readouterr().err


@pytest.fixture
async def tunnel() -> AsyncIterator[str]:
    """A proxy that knows CONNECT and nothing else."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        verb, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        host, _, port = target.decode().rpartition(":")
        if verb != b"CONNECT" or port == "1":
            writer.write(b"HTTP/1.1 403 Not through here\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(host, port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    proxy = await asyncio.start_server(connect, "127.0.0.1")
    async with proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


async def test_tls_goes_through_a_proxy_end_to_end(tunnel: str, tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path)
    async with FakeApiServer(tls) as server:
        cluster = ClusterEntry(certificate_authority=str(authority.cert), proxy_url=tunnel)
        access = Access(server=server.url, cluster=cluster)
        async with following(access) as consumer:
            await consumer.wait_synced()
            server.put(service("a"))
            await consumer.wait_names("a")


async def test_a_proxy_that_refuses(tunnel: str, capsys: pytest.CaptureFixture[str]) -> None:
    access = Access(server="https://127.0.0.1:1", cluster=ClusterEntry(proxy_url=tunnel))
    line = await error_line(access, capsys)
    assert "the proxy to https://127.0.0.1:1 refused with 403 Not through here" in line


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(TimeoutError(), "S did not answer in time", id="timeout"),
        pytest.param(
            OSError(errno.EHOSTUNREACH, "x"),
            "the connection to S failed (no route to host: check the routes and firewalls between"
            " this node and the server)",
            id="no-route",
        ),
        pytest.param(OSError("odd"), "the connection to S failed (odd)", id="without-a-number"),
        pytest.param(
            socket.gaierror(-2, "Name or service not known"),
            "the connection to S failed (name or service not known)",
            id="resolver",
        ),
        pytest.param(aiohttp.InvalidURL("u"), "the request to S failed (u)", id="anything-else"),
        pytest.param(
            aiohttp.ClientError(), "the request to S failed (ClientError)", id="without-a-text"
        ),
    ],
)
def test_rarer_failures(error: Exception, expected: str) -> None:
    assert expected == describe_failure(error, "S")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(401, "; the client is me: check that the token or certificate", id="401"),
        pytest.param(403, "such as ClusterRole system:node-proxier, is bound to it", id="403"),
        pytest.param(404, "check the server URL and its path", id="404"),
        pytest.param(400, "begins with https:// if the port speaks TLS", id="400"),
        pytest.param(409, "S refused to serve services with 409", id="others"),
    ],
)
def test_refusals_say_what_to_check(code: int, expected: str) -> None:
    text = describe_refusal(Status(code), "services", "S", "me")
    assert text.startswith(f"S refused to serve services with {code}")
    assert expected in text
