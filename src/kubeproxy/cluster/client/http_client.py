"""An HTTP client of one API server: credentials, proxies, rate limit and timeouts.

Every failure is raised as an `ApiServerError` or `OperatorError` whose text is one line for an
operator. What the bytes mean is not known here.
"""

import asyncio
import contextlib
import platform
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.commit import commit
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.credentials import Credentials, Proof
from kubeproxy.cluster.client.failures import RequestFailed, UnreachableError, describe_failure
from kubeproxy.cluster.client.observed import Attempt, Exchange, Observe
from kubeproxy.cluster.client.resources import Query
from kubeproxy.cluster.client.response import Response
from kubeproxy.cluster.client.routes import may_be_http2, pings_of, route_to
from kubeproxy.cluster.client.transport import (
    CONNECT_TIMEOUT,
    JSON,
    NotOffered,
    RawResponse,
    Request,
)

if TYPE_CHECKING:
    from kubeproxy.cluster.client.http1 import Http1
    from kubeproxy.cluster.client.http2 import Http2

RESPONSE_TIMEOUT = 120.0
"""For the first byte of a response."""
MOST_RETRIES = 10
LONGEST_RETRY_AFTER = 300
LOGGED_WAIT = 0.05
LONG_WAIT = 1.0
LONG_WAIT_PERIOD = 10.0

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
    accept: str = JSON
    watch: bool = False
    body: bytes | None = None
    content_type: str = ""


def user_agent() -> str:
    """Our version, platform and commit, then the upstream release whose behaviour is followed."""
    machine = platform.machine()
    system = f"linux/{_ARCHITECTURES.get(machine, machine)}"
    source = f" commit/{commit()}" if commit() else ""
    return f"kubeproxy/{VERSION} ({system}){source} kube-proxy/{KUBERNETES_VERSION}"


class HttpClient:
    """An HTTP client of one server; an async context manager that owns its connections.

    HTTP/2 where the server offers it, else HTTP/1.1. Making one reads the files of the
    credentials, so that errors show before anything runs.
    """

    def __init__(
        self,
        access: Access,
        limit: RateLimit,
        environ: Mapping[str, str],
        observe: Observe,
    ) -> None:
        self.access = access
        self._route = route_to(access, environ)
        self._prefix = urlsplit(access.server).path
        self._observe = observe
        self._bucket = TokenBucket(limit)
        self._last_long_wait = 0.0
        self._may_be_http2 = may_be_http2(self._route, environ)
        self._pings = pings_of(environ)
        protocols = ("h2", "http/1.1") if self._may_be_http2 else ()
        self._credentials = Credentials(access, environ, time.monotonic(), protocols)
        self._headers = [("User-Agent", user_agent())]
        if not access.cluster.disable_compression:
            self._headers.append(("Accept-Encoding", "gzip"))
        self._is_open = False
        self._http1: Http1 | None = None
        self._http2: Http2 | None = None
        self._is_http1 = False
        """Whether the server did not offer HTTP/2 at the last connection."""
        self._reachable = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        transports = (self._http1, self._http2)
        self._http1 = self._http2 = None
        for transport in transports:
            if transport is not None:
                await transport.close()

    def get(
        self, path: str, query: Query, *, accept: str = JSON, watch: bool = False
    ) -> _Exchanged:
        """The response to a GET, of any status, after the retries that the server asked for."""
        return self._exchange(_Call(path, query, accept=accept, watch=watch))

    def write(self, method: str, path: str, body: bytes, content_type: str) -> _Exchanged:
        """As `get`, for a request with a body; the rate limit holds for it too."""
        return self._exchange(_Call(path, (), method, body=body, content_type=content_type))

    @contextlib.asynccontextmanager
    async def _exchange(self, call: _Call) -> AsyncIterator[Response]:
        began = time.monotonic()
        response: Response | None = None
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
                self._observe(
                    Exchange(call.method, self._route.authority, seconds, sent, received)
                )

    async def _respond(self, call: _Call) -> RawResponse:
        retry_of = ""
        for attempt in range(MOST_RETRIES + 1):
            response = await self._attempt(call, retry_of)
            pause = _retry_after(response)
            if pause is None or attempt == MOST_RETRIES:
                return response
            response.close()
            retry_of = str(response.status)
            seconds = spread(pause, random.random())  # noqa: S311  # nothing secret depends on it
            klog.info("The API server asked to retry later", v=2, seconds=seconds, path=call.path)
            await asyncio.sleep(seconds)
        raise AssertionError  # the last attempt returns

    async def _attempt(self, call: _Call, retry_of: str) -> RawResponse:
        waited = 0.0 if call.watch else await self._wait_for_token(call.path)
        proof = await self._credentials.prove(time.monotonic(), time.time())

        began = time.monotonic()

        def observe(code: str) -> None:
            klog.info(
                "HTTP request",
                v=6,
                method=call.method,
                path=call.path,
                query=dict(call.query),
                answer=code,
                seconds=round(time.monotonic() - began, 6),
            )
            self._observe(
                Attempt(call.method, self._route.authority, code, waited, call.watch, retry_of)
            )

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

    async def _send(self, proof: Proof, call: _Call) -> RawResponse:
        assert self._is_open, "use `async with`"  # noqa: S101  # a mistake in our code
        query = f"?{urlencode(call.query, quote_via=quote, safe='')}" if call.query else ""
        typed = [("Content-Type", call.content_type)] if call.content_type else []
        headers = (*proof.headers, *self._headers, ("Accept", call.accept), *typed)
        request = Request(call.method, self._prefix + call.path + query, headers, call.body)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT + RESPONSE_TIMEOUT):
                return await self._transmit(request, proof.context)
        except (RequestFailed, OSError, ValueError) as error:  # such as an invalid name
            self._is_http1 = False  # another server may listen there when we connect again
            raise UnreachableError(describe_failure(error, self.access.server)) from error

    async def _transmit(self, request: Request, context: ssl.SSLContext | None) -> RawResponse:
        if self._may_be_http2 and not self._is_http1 and context is not None:
            try:
                return await self._by_http2().request(request, context)
            except NotOffered:
                self._is_http1 = True
                klog.info("The API server does not offer HTTP/2, using HTTP/1.1", v=4)
        return await self._by_http1().request(request, context)

    def _by_http1(self) -> "Http1":
        if self._http1 is None:
            from kubeproxy.cluster.client.http1 import Http1  # noqa: PLC0415  # rarely needed

            self._http1 = Http1(self._route)
        return self._http1

    def _by_http2(self) -> "Http2":
        if self._http2 is None:
            from kubeproxy.cluster.client.http2 import Http2  # noqa: PLC0415  # not with HTTP/1.1

            self._http2 = Http2(self._route, self._pings)
        return self._http2

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


def spread(seconds: float, chance: float) -> float:
    """A pause that a server asked for, up to half as long again by `chance` in [0, 1).

    It asks all nodes of a cluster for the same, and they must not come back all at once.
    """
    return seconds * (1.0 + chance / 2)


def _retry_after(response: RawResponse) -> int | None:
    """Seconds after which the server wants the request again; None when it does not say."""
    later = response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= 500
    given = response.headers.get("retry-after", "")
    if not later or not (given.isascii() and given.isdigit()):
        return None
    return min(int(given), LONGEST_RETRY_AFTER)
