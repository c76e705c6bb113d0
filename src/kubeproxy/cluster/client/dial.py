"""TLS connections that can be HTTP/2, directly or through a proxy: by CONNECT, or by SOCKS5."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from kubeproxy.cluster.client import socks
from kubeproxy.cluster.client.failures import Failure, RequestFailed
from kubeproxy.cluster.client.transport import CONNECT_TIMEOUT, NotOffered, Route

TLS_TIMEOUT = 10.0
NEXT_ADDRESS = 0.25
"""Seconds after which the next address of a name is tried too."""
ALPN = "h2"
_LONGEST_HEAD = 16 * 1024
_DEFAULT_PROXY_PORT = 80

_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


async def dial(
    route: Route, context: ssl.SSLContext, protocol: Callable[[], _Protocol]
) -> _Protocol:
    """A connection that speaks HTTP/2. Raises a `RequestFailed`, or `NotOffered`."""
    with failures():
        async with asyncio.timeout(CONNECT_TIMEOUT):
            opened = await tunnel(route) if route.proxy else None
            transport, connected = await _connect(route, context, protocol, opened)
    if not speaks_http2(transport):
        transport.abort()
        raise NotOffered
    return connected


def speaks_http2(transport: asyncio.Transport) -> bool:
    """Whether that was agreed on in the TLS handshake."""
    negotiated: str | None = transport.get_extra_info("ssl_object").selected_alpn_protocol()
    return negotiated == ALPN


@contextmanager
def failures() -> Iterator[None]:
    """What goes wrong while a connection is made, as a `RequestFailed`."""
    try:
        yield
    except socket.gaierror as error:
        raise RequestFailed(Failure.NAME, error) from error
    except ssl.SSLCertVerificationError as error:
        raise RequestFailed(Failure.UNTRUSTED, error) from error
    except (ssl.SSLError, ConnectionAbortedError) as error:  # the latter: no handshake in time
        raise RequestFailed(Failure.NO_TLS, error) from error
    except OSError as error:
        raise RequestFailed(Failure.CONNECT, error) from error


async def _connect(
    route: Route,
    context: ssl.SSLContext,
    protocol: Callable[[], _Protocol],
    opened: socket.socket | None,
) -> tuple[asyncio.Transport, _Protocol]:
    loop = asyncio.get_running_loop()
    name = route.server_name or route.host
    if opened is not None:
        return await loop.create_connection(
            protocol,
            sock=opened,
            ssl=context,
            server_hostname=name,
            ssl_handshake_timeout=TLS_TIMEOUT,
        )
    return await loop.create_connection(
        protocol,
        route.host,
        route.port,
        ssl=context,
        server_hostname=name,
        ssl_handshake_timeout=TLS_TIMEOUT,
        happy_eyeballs_delay=NEXT_ADDRESS,
    )


async def tunnel(route: Route) -> socket.socket:
    """A connection to the server through the proxy."""
    proxy = urlsplit(route.proxy)
    is_socks = proxy.scheme in socks.SCHEMES
    port = proxy.port or (socks.DEFAULT_PORT if is_socks else _DEFAULT_PROXY_PORT)
    try:
        sock = await _connected_socket(proxy.hostname or "", port)
        try:
            await (_ask_socks if is_socks else _ask_http)(sock, proxy, route)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise RequestFailed(Failure.PROXY, error) from error
    return sock


async def _ask_http(sock: socket.socket, proxy: SplitResult, route: Route) -> None:
    """Have an HTTP proxy connect, by CONNECT."""
    host = f"[{route.host}]" if ":" in route.host else route.host
    target = f"{host}:{route.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    answer = await _answer_to(sock, "\r\n".join([*lines, "", ""]).encode())
    status = answer.partition(b"\r\n")[0].decode("latin-1").partition(" ")[2]
    if not status.startswith("2"):
        raise RequestFailed(Failure.PROXY_REFUSED, status or "something else than HTTP")


async def _ask_socks(sock: socket.socket, proxy: SplitResult, route: Route) -> None:
    """Have a SOCKS5 proxy connect."""
    login = None
    if proxy.username is not None:
        login = socks.Login(unquote(proxy.username), unquote(proxy.password or ""))
    loop = asyncio.get_running_loop()
    said = socks.handshake(route.host, route.port, login)
    try:
        step = next(said)
        while True:
            await loop.sock_sendall(sock, step.send)
            step = said.send(await _exactly(sock, step.read))
    except StopIteration:
        return
    except socks.SocksError as error:
        raise RequestFailed(Failure.PROXY_REFUSED, str(error)) from error


async def _exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes and no more: what follows belongs to the server."""
    loop = asyncio.get_running_loop()
    answer = b""
    while len(answer) < size:
        data = await loop.sock_recv(sock, size - len(answer))
        if not data:
            raise socks.SocksError("something else than SOCKS5")
        answer += data
    return answer


async def _connected_socket(host: str, port: int) -> socket.socket:
    """Connected to the first address that answers."""
    loop = asyncio.get_running_loop()
    failure: OSError = socket.gaierror(socket.EAI_NONAME, "no address")
    for family, kind, proto, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, proto)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _answer_to(sock: socket.socket, request: bytes) -> bytes:
    """The head of a proxy's answer; what follows belongs to the server, which waits for us."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, request)
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < _LONGEST_HEAD:
        data = await loop.sock_recv(sock, _LONGEST_HEAD)
        if not data:
            break
        answer += data
    return answer
