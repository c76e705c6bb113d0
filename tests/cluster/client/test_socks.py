"""SOCKS5: what is said to a proxy, and an API server behind one."""

import asyncio
from pathlib import Path

import pytest

from cluster.following import following, service
from fakes.apiserver import FakeApiServer
from fakes.apistreams import reset
from fakes.certs import server_tls
from fakes.http2front import Http2Front
from fakes.socksproxy import SocksProxy
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.socks import Handshake, Login, SocksError, handshake

ME = Login("me", "secret")
BOUND = b"\0\0\0\0\0\0"


def talk(said: Handshake, *answers: bytes) -> list[bytes]:
    """What is sent to a proxy with these answers."""
    sent = [next(said)]
    try:
        for answer in answers:
            assert len(answer) == sent[-1].read
            sent.append(said.send(answer))
    except StopIteration:
        return [step.send for step in sent if step.send]
    raise AssertionError(f"{sent[-1]} has no answer")


@pytest.mark.parametrize(
    ("host", "login", "answers", "sent"),
    [
        pytest.param(
            "192.0.2.7",
            None,
            [b"\5\0", b"\5\0\0\1", BOUND],
            [b"\5\1\0", b"\5\1\0\1\xc0\0\2\7\1\xbb"],
            id="ipv4",
        ),
        pytest.param(
            "2001:db8::7",
            None,
            [b"\5\0", b"\5\0\0\4", bytes(18)],
            [b"\5\1\0", b"\5\1\0\4\x20\1\x0d\xb8" + bytes(11) + b"\7\1\xbb"],
            id="ipv6",
        ),
        pytest.param(
            "api.example",
            None,
            [b"\5\0", b"\5\0\0\3", b"\2", bytes(4)],
            [b"\5\1\0", b"\5\1\0\3\x0bapi.example\1\xbb"],
            id="name",
        ),
        pytest.param(
            "b\u00fccher.example",
            None,
            [b"\5\0", b"\5\0\0\1", BOUND],
            [b"\5\1\0", b"\5\1\0\3\x15xn--bcher-kva.example\1\xbb"],
            id="name-beyond-ascii",
        ),
        pytest.param(
            "192.0.2.7",
            ME,
            [b"\5\2", b"\1\0", b"\5\0\0\1", BOUND],
            [b"\5\2\0\2", b"\1\2me\6secret", b"\5\1\0\1\xc0\0\2\7\1\xbb"],
            id="login",
        ),
        pytest.param(
            "192.0.2.7",
            ME,
            [b"\5\0", b"\5\0\0\1", BOUND],
            [b"\5\2\0\2", b"\5\1\0\1\xc0\0\2\7\1\xbb"],
            id="login-that-is-not-wanted",
        ),
    ],
)
def test_what_is_said(
    host: str, login: Login | None, answers: list[bytes], sent: list[bytes]
) -> None:
    assert talk(handshake(host, 443, login), *answers) == sent


@pytest.mark.parametrize(
    ("host", "login", "answers", "expected"),
    [
        pytest.param("a", None, [b"HT"], "something else than SOCKS5", id="http"),
        pytest.param("a", None, [b"\5\xff"], "it wants a user name and password", id="login"),
        pytest.param("a", None, [b"\5\2"], "it wants a user name and password", id="not-offered"),
        pytest.param("a", ME, [b"\5\xff"], "it accepts no user name and password", id="other-way"),
        pytest.param("a", ME, [b"\5\2", b"\1\1"], "rejected the user name or pass", id="rejected"),
        pytest.param("a", Login("", "x"), [b"\5\2"], "the user name has 0 bytes", id="no-user"),
        pytest.param(
            "a", Login("x", "y" * 256), [b"\5\2"], "the password has 256 bytes", id="long-password"
        ),
        pytest.param("a" * 300, None, [b"\5\0"], "name of the server is no name", id="long-name"),
        pytest.param("a", None, [b"\5\0", b"\4\0\0\1"], "else than SOCKS5", id="version"),
        pytest.param("a", None, [b"\5\0", b"\5\2\0\1"], "its rules do not allow", id="rules"),
        pytest.param("a", None, [b"\5\0", b"\5\x63\0\1"], "reply 99", id="unknown-reply"),
        pytest.param("a", None, [b"\5\0", b"\5\0\0\7"], "an address of type 7", id="address"),
    ],
)
def test_proxies_that_do_not_connect(
    host: str, login: Login | None, answers: list[bytes], expected: str
) -> None:
    *accepted, last = answers
    said = handshake(host, 443, login)
    next(said)
    for answer in accepted:
        said.send(answer)
    with pytest.raises(SocksError, match=expected):
        said.send(last)


# --- with a proxy -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "user"),
    [
        pytest.param(None, "", id="without-login"),
        pytest.param(("me", "s:cr/t"), "me:s%3Acr%2Ft", id="with-login"),
    ],
)
async def test_all_watches_go_through_one_connection_of_a_proxy(
    server: FakeApiServer, tmp_path: Path, login: tuple[str, str] | None, user: str
) -> None:
    tls, authority = server_tls(tmp_path)
    async with Http2Front(server, tls) as front, SocksProxy(login) as proxy:
        cluster = ClusterEntry(
            certificate_authority=str(authority.cert), proxy_url=proxy.url(user)
        )
        async with following(Access(server=front.url, cluster=cluster)) as consumer:
            await consumer.wait_synced()
            server.put(service("a"))
            await consumer.wait_names("a")
            assert [f"127.0.0.1 {front.url.rpartition(':')[2]}"] == proxy.targets
            assert len(front.connections) == 1


@pytest.mark.parametrize("secured", [True, False], ids=["https", "http"])
async def test_servers_without_http2_are_reached_by_name(tmp_path: Path, secured: bool) -> None:
    tls, authority = server_tls(tmp_path)
    async with (
        FakeApiServer(tls if secured else None) as server,
        SocksProxy(elsewhere={"far.invalid": "127.0.0.1"}) as proxy,
    ):
        cluster = ClusterEntry(
            certificate_authority=str(authority.cert) if secured else "",
            tls_server_name="127.0.0.1" if secured else "",
            proxy_url=proxy.url(),
        )
        access = Access(server=server.url.replace("127.0.0.1", "far.invalid"), cluster=cluster)
        async with following(access) as consumer:
            await consumer.wait_synced()
            server.put(service("a"))
            await consumer.wait_names("a")
        assert {each.partition(" ")[0] for each in proxy.targets} == {"far.invalid"}


async def error_line(access: Access, capsys: pytest.CaptureFixture[str]) -> str:
    async with following(access) as consumer:
        await consumer.wait(lambda: bool(consumer.attempts))
    return capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("login", "reply", "expected"),
    [
        pytest.param(None, 0, "refused with SOCKS5: the server refused the connection", id="port"),
        pytest.param(None, 2, "refused with SOCKS5: its rules do not allow", id="rules"),
        pytest.param(("me", "x"), 0, "SOCKS5: it wants a user name and password", id="login"),
    ],
)
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_what_the_proxy_says_is_shown(
    login: tuple[str, str] | None,
    reply: int,
    expected: str,
    scheme: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with SocksProxy(login, reply=reply) as proxy:
        server = f"{scheme}://127.0.0.1:1"
        access = Access(server=server, cluster=ClusterEntry(proxy_url=proxy.url()))
        line = await error_line(access, capsys)
    assert f"the proxy to {server} " in line
    assert expected in line


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(3, "refused with something else than SOCKS5", id="hangs-up"),
        pytest.param(1, "cannot be reached (connection reset by peer)", id="resets"),
    ],
)
async def test_something_else_than_a_proxy_is_named(
    read: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(read)
        writer.write(b"\5")
        if read < 3:
            assert isinstance(writer.transport, asyncio.Transport)
            reset(writer.transport)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1") as listener:
        port = listener.sockets[0].getsockname()[1]
        cluster = ClusterEntry(proxy_url=f"socks5://127.0.0.1:{port}")
        line = await error_line(Access(server="https://a.invalid", cluster=cluster), capsys)
    assert f"the proxy to https://a.invalid {expected}" in line


async def test_a_proxy_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ClusterEntry(proxy_url="socks5://127.0.0.1:1")
    line = await error_line(Access(server="https://a.invalid", cluster=cluster), capsys)
    assert "the proxy to https://a.invalid cannot be reached (connection refused)" in line
