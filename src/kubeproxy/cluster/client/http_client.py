"""An HTTP client of one API server: credentials, proxies, rate limit and timeouts.

Every failure is raised as an `ApiServerError` or `OperatorError` whose text is one line for an
operator. What the bytes mean is not known here.
"""

import asyncio
import contextlib
import platform
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from kubeproxy.base import klog
from kubeproxy.base.inet import Prefix, contains, parse_address, parse_prefix
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.credentials import Credentials, Proof
from kubeproxy.cluster.client.failures import UnreachableError, describe_failure
from kubeproxy.cluster.client.observed import Attempt, Exchange, Observe
from kubeproxy.cluster.client.resources import Query
from kubeproxy.cluster.client.response import Response

CONNECT_TIMEOUT = 30.0
RESPONSE_TIMEOUT = 120.0
"""For the first byte of a response."""
KEEP_IDLE_CONNECTIONS = 90.0
MOST_RETRIES = 10
LONGEST_RETRY_AFTER = 300
LOGGED_WAIT = 0.05
LONG_WAIT = 1.0
LONG_WAIT_PERIOD = 10.0

_LOOPBACK = (Prefix("127.0.0.0", 8), Prefix("::1", 128))
_DEFAULT_PORT = {"http": 80, "https": 443}
_Exchanged = contextlib.AbstractAsyncContextManager[Response]
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}


class RateLimit(msgspec.Struct, frozen=True):
    """Requests a second; without a positive rate there is no limit. Watches never wait."""

    qps: float = 5.0
    burst: int = 10


class TokenBucket:
    """Holds up to `burst` tokens, which are refilled at `qps` a second."""

    def __init__(self, limit: RateLimit) -> None:
        self._qps = limit.qps
        self._burst = float(limit.burst)
        self._tokens = self._burst
        self._updated = 0.0

    def take(self, now: float) -> float:
        """Take a token; how many seconds to wait before using it.

        Clients queue: each one that has to wait waits for its own token.
        """
        if self._qps <= 0:
            return 0.0
        refill = max(0.0, now - self._updated) * self._qps
        self._tokens = min(self._burst, self._tokens + refill) - 1.0
        self._updated = max(self._updated, now)
        return max(0.0, -self._tokens / self._qps)


class _Call(msgspec.Struct, frozen=True):
    """A request; only a write has a body."""

    path: str
    query: Query = ()
    method: str = "GET"
    watch: bool = False
    body: bytes | None = None
    content_type: str = ""


def user_agent() -> str:
    """As upstream: program, Kubernetes version and platform; then our own name and version."""
    machine = platform.machine()
    system = f"linux/{_ARCHITECTURES.get(machine, machine)}"
    return f"kube-proxy/{KUBERNETES_VERSION} ({system}) kubeproxy/{VERSION}"


class HttpClient:
    """An HTTP client of one server; an async context manager that owns its connections.

    Making one reads the files of the credentials, so that errors show before anything runs.
    """

    def __init__(
        self,
        access: Access,
        limit: RateLimit,
        environ: Mapping[str, str],
        observe: Observe,
    ) -> None:
        self.access = access
        self._host = urlsplit(access.server).netloc
        self._observe = observe
        self._bucket = TokenBucket(limit)
        self._last_long_wait = 0.0
        self._credentials = Credentials(access, environ, time.monotonic())
        self._headers = [("User-Agent", user_agent()), ("Accept", "application/json")]
        if not access.cluster.disable_compression:
            self._headers.append(("Accept-Encoding", "gzip"))
        self._proxy = access.cluster.proxy_url or proxy_for(access.server, environ) or None
        self._session: aiohttp.ClientSession | None = None
        self._reachable = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_IDLE_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=256 * 1024,
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def get(self, path: str, query: Query, *, watch: bool = False) -> _Exchanged:
        """The response to a GET, of any status, after the retries that the server asked for."""
        return self._exchange(_Call(path, query, watch=watch))

    def write(self, method: str, path: str, body: bytes, content_type: str) -> _Exchanged:
        """As `get`, for a request with a body; the rate limit holds for it too."""
        return self._exchange(_Call(path, (), method, body=body, content_type=content_type))

    @contextlib.asynccontextmanager
    async def _exchange(self, call: _Call) -> AsyncIterator[Response]:
        began = time.monotonic()
        response = None
        try:
            response = Response(await self._respond(call), self.access.server)
            yield response
        finally:
            received = None
            if response is not None:
                response.close()
                received = response.received
            if not call.watch:
                seconds, sent = time.monotonic() - began, len(call.body or b"")
                self._observe(Exchange(call.method, self._host, seconds, sent, received))

    async def _respond(self, call: _Call) -> aiohttp.ClientResponse:
        retry_of = ""
        for attempt in range(MOST_RETRIES + 1):
            response = await self._attempt(call, retry_of)
            pause = _retry_after(response)
            if pause is None or attempt == MOST_RETRIES:
                return response
            response.close()
            retry_of = str(response.status)
            klog.info("The API server asked to retry later", v=2, seconds=pause, path=call.path)
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns

    async def _attempt(self, call: _Call, retry_of: str) -> aiohttp.ClientResponse:
        waited = 0.0 if call.watch else await self._wait_for_token(call.path)
        proof = await self._credentials.prove(time.monotonic(), time.time())

        def observe(code: str) -> None:
            self._observe(Attempt(call.method, self._host, code, waited, call.watch, retry_of))

        try:
            response = await self._send(proof, call)
        except UnreachableError:
            self._reachable.clear()
            observe("<error>")
            raise
        self._reachable.set()
        observe(str(response.status))
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._credentials.refused(proof)
        return response

    async def _send(self, proof: Proof, call: _Call) -> aiohttp.ClientResponse:
        assert self._session is not None, "use `async with`"  # noqa: S101  # a mistake in our code
        query = f"?{urlencode(call.query, quote_via=quote, safe='')}" if call.query else ""
        typed = [("Content-Type", call.content_type)] if call.content_type else []
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT + RESPONSE_TIMEOUT):
                return await self._session.request(
                    call.method,
                    URL(self.access.server + call.path + query, encoded=True),
                    data=call.body,
                    headers=[*proof.headers, *self._headers, *typed],
                    ssl=proof.context or True,
                    server_hostname=self.access.cluster.tls_server_name or None,
                    proxy=self._proxy,
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:  # such as an invalid name
            raise UnreachableError(describe_failure(error, self.access.server)) from error

    async def _wait_for_token(self, path: str) -> float:
        now = time.monotonic()
        seconds = self._bucket.take(now)
        v = 3
        if seconds > LONG_WAIT and now - self._last_long_wait >= LONG_WAIT_PERIOD:
            self._last_long_wait, v = now, 0
        if seconds > LOGGED_WAIT:
            klog.info("Waiting for the client-side rate limit", v=v, delay=seconds, path=path)
        if seconds:
            await asyncio.sleep(seconds)
        return seconds

    async def wait_reachable(self, at_most: float) -> None:
        """Wait until another request had a response since the last failure, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._reachable.wait()


def _retry_after(response: aiohttp.ClientResponse) -> int | None:
    """Seconds after which the server wants the request again; None when it does not say."""
    later = response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= 500
    given = response.headers.get("Retry-After", "")
    if not later or not (given.isascii() and given.isdigit()):
        return None
    return min(int(given), LONGEST_RETRY_AFTER)


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy for a server's URL, from the environment; "" when it needs none.

    The rules are those of Go programs, for which operators of Kubernetes write their NO_PROXY:
    names match with their subdomains, prefixes match addresses, loopback needs no proxy.
    """
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    host = (parts.hostname or "").rstrip(".")
    if not proxy or _is_local(host):
        return ""
    port = parts.port or _DEFAULT_PORT.get(parts.scheme, 0)
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(entry.strip().lower(), host, port) for entry in excepted.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    address = parse_address(host)
    if address is None:
        return host == "localhost"
    return any(contains(prefix, address) for prefix in _LOOPBACK)


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY covers the host: `*`, a prefix, an address or a name."""
    if not entry or entry == "*":
        return bool(entry)
    address = parse_address(host)
    prefix = parse_prefix(entry)
    if prefix is not None:
        return address is not None and contains(prefix, address)
    name, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return parse_address(name) == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    """`name:port` or `[address]:port`; a bare IPv6 address has no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") != 1:
        return entry, ""
    name, _, port = entry.partition(":")
    return name, port
