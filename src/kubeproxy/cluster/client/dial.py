"""TLS connections that can be HTTP/2: directly, or through a proxy that tunnels."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote, urlsplit

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
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            tunnel = await _tunnel(route) if route.proxy else None
            transport, connected = await _connect(route, context, protocol, tunnel)
    except socket.gaierror as error:
        raise RequestFailed(Failure.NAME, error) from error
    except ssl.SSLCertVerificationError as error:
        raise RequestFailed(Failure.UNTRUSTED, error) from error
    except (ssl.SSLError, ConnectionAbortedError) as error:  # the latter: no handshake in time
        raise RequestFailed(Failure.NO_TLS, error) from error
    except OSError as error:
        raise RequestFailed(Failure.CONNECT, error) from error
    negotiated = transport.get_extra_info("ssl_object").selected_alpn_protocol()
    if negotiated != ALPN:
        transport.abort()
        raise NotOffered
    return connected


async def _connect(
    route: Route,
    context: ssl.SSLContext,
    protocol: Callable[[], _Protocol],
    tunnel: socket.socket | None,
) -> tuple[asyncio.Transport, _Protocol]:
    loop = asyncio.get_running_loop()
    name = route.server_name or route.host
    if tunnel is not None:
        return await loop.create_connection(
            protocol,
            sock=tunnel,
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


async def _tunnel(route: Route) -> socket.socket:
    """A connection to the server through the proxy, by CONNECT."""
    proxy = urlsplit(route.proxy)
    try:
        sock = await _connected_socket(proxy.hostname or "", proxy.port or _DEFAULT_PROXY_PORT)
    except OSError as error:
        raise RequestFailed(Failure.PROXY, error) from error
    try:
        host = f"[{route.host}]" if ":" in route.host else route.host
        target = f"{host}:{route.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
        answer = await _answer_to(sock, "\r\n".join([*lines, "", ""]).encode())
    except BaseException:
        sock.close()
        raise
    status = answer.partition(b"\r\n")[0].decode("latin-1").partition(" ")[2]
    if not status.startswith("2"):
        sock.close()
        raise RequestFailed(Failure.PROXY_REFUSED, status or "something else than HTTP")
    return sock


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
