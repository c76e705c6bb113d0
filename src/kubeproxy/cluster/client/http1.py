"""HTTP/1.1, by aiohttp: for servers and proxies that do not offer HTTP/2. One connection a watch.

It is imported when it is needed: most clusters never do.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from kubeproxy.cluster.client.dial import failures, tunnel
from kubeproxy.cluster.client.failures import Failure, RequestFailed
from kubeproxy.cluster.client.socks import SCHEMES
from kubeproxy.cluster.client.transport import CONNECT_TIMEOUT, READ_SIZE, Request, Route

KEEP_IDLE_CONNECTIONS = 90.0

# A peer that has vanished is noticed after 45 s, as soon as with the pings of HTTP/2.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

# The first type that fits decides: subclasses stand before their base classes.
_FAILURES: tuple[tuple[type[Exception], Failure], ...] = (
    (aiohttp.ClientConnectorDNSError, Failure.NAME),
    (aiohttp.ClientConnectorCertificateError, Failure.UNTRUSTED),
    (aiohttp.ClientProxyConnectionError, Failure.PROXY),
    (aiohttp.ClientHttpProxyError, Failure.PROXY_REFUSED),
    (aiohttp.ClientSSLError, Failure.NO_TLS),
    (aiohttp.ClientConnectorError, Failure.CONNECT),
    (aiohttp.ServerDisconnectedError, Failure.NO_RESPONSE),
    (aiohttp.ClientPayloadError, Failure.CUT),
    (aiohttp.ClientResponseError, Failure.NOT_HTTP),
    (ssl.SSLError, Failure.TLS_ENDED),
    (TimeoutError, Failure.TIMEOUT),
    (OSError, Failure.CONNECTION),
    (aiohttp.ClientError, Failure.OTHER),
)


def failed(error: aiohttp.ClientError) -> RequestFailed:
    """In which way a request of aiohttp's failed."""
    failure = next(failure for type_, failure in _FAILURES if isinstance(error, type_))
    return RequestFailed(failure, _cause(error))


def _cause(error: aiohttp.ClientError) -> Exception | str:
    """The exception of the system that caused that of the HTTP library."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return error.certificate_error
        case aiohttp.ClientConnectorError():
            return error.os_error
        case aiohttp.ClientHttpProxyError():
            return f"{error.status} {error.message}"
    return error


class Http1Response:
    """A response that aiohttp leaves compressed."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; the case of their names does not matter."""
        return self._response.headers

    async def read(self) -> bytes:
        """The next bytes as soon as there are any; empty at the end."""
        try:
            return await self._response.content.read(READ_SIZE)
        except aiohttp.ClientError as error:
            raise failed(error) from error

    def close(self) -> None:
        """Release the connection, which is kept if the body was read to its end."""
        self._response.close()

    def keep_alive(self) -> None:
        """Have the kernel check now and then whether the peer still exists."""
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


class _SocksConnector(aiohttp.BaseConnector):
    """Connections through a SOCKS5 proxy, which aiohttp does not know."""

    def __init__(self, route: Route) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_IDLE_CONNECTIONS)
        self._route = route

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: object,  # noqa: ARG002  # as aiohttp calls it
        timeout: object,  # noqa: ARG002, ASYNC109
    ) -> ResponseHandler:
        with failures():
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, protocol = await self._loop.create_connection(
                    self._factory,
                    sock=await tunnel(self._route),
                    ssl=req.ssl if req.is_ssl() else None,  # type: ignore[arg-type]  # a context
                    server_hostname=(self._route.server_name or self._route.host)
                    if req.is_ssl()
                    else None,
                )
        return protocol


class Http1:
    """Sends each request on a connection that no other uses at that time."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._is_socks = urlsplit(route.proxy).scheme in SCHEMES
        self._session = aiohttp.ClientSession(
            connector=self._connector(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=256 * 1024,
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,
        )

    def _connector(self) -> aiohttp.BaseConnector:
        if self._is_socks:
            return _SocksConnector(self._route)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_IDLE_CONNECTIONS)

    async def request(self, request: Request, context: ssl.SSLContext | None) -> Http1Response:
        """The response, when its head has arrived."""
        route = self._route
        url = f"{route.scheme}://{route.authority}{request.target}"
        try:
            response = await self._session.request(
                request.method,
                URL(url, encoded=True),
                data=request.body,
                headers=request.headers,
                ssl=context or True,
                server_hostname=route.server_name or None,
                proxy=None if self._is_socks else route.proxy or None,
            )
        except aiohttp.ClientError as error:
            raise failed(error) from error
        return Http1Response(response)

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()
