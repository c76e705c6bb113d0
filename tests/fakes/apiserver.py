"""A Kubernetes API server for tests: real HTTP(S) on loopback, state in `apistore`.

It lists, watches, streams lists, pages, compresses, expires and refuses as the real one does (see
the modules beside this one for the rules), records its requests (`requests`), and fails on
purpose (`faults`). By hand, from the folder above: `python -m fakes.apiserver --port 8001`, then
`kubectl --server http://127.0.0.1:8001 get services`.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from fakes.apidiscovery import discovery
from fakes.apiencoded import Encoded
from fakes.apierrors import ApiError, status_of, too_large
from fakes.apifaults import Faults, Refusal
from fakes.apilists import page_of
from fakes.apioptions import Options, parse_options
from fakes.apiprotobuf import PROTOBUF, list_body, status_body
from fakes.apiresources import RESOURCE_OF_KIND, Resource, Target, target_of
from fakes.apistore import (
    Body,
    Change,
    Selection,
    Store,
    decode_body,
    whole,
)
from fakes.apistreams import Outlet, Watcher, reset, serve_watch
from fakes.apiwrites import body_to_store, existing, same
from fakes.certs import ServerTLS

GZIP_ABOVE = 128 * 1024


class Request(msgspec.Struct, frozen=True):
    """What a client asked."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    """Case does not matter in the names."""


class FakeApiServer:
    """The server; used as an async context manager, it listens on 127.0.0.1.

    With `tokens` or a client authority in `tls`, requests need one of those credentials. `prefix`
    is a path below which everything is served. Bookmarks go out every `bookmark_every` seconds.
    """

    def __init__(
        self,
        tls: ServerTLS | None = None,
        tokens: set[str] | None = None,
        *,
        prefix: str = "",
        bookmark_every: float = 60.0,
        port: int = 0,
    ) -> None:
        self.store = Store(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._encoded = Encoded(self.store)
        self.requests: list[Request] = []
        self.faults = Faults(lambda: self._watchers)
        self.tokens = tokens
        self.knows_protobuf = True
        self._tls = tls
        self._prefix = prefix
        self._port = port
        self._bookmark_every = bookmark_every
        self._watchers: list[Watcher] = []
        self._watchers_changed = asyncio.Event()
        self._http = web.Server(self.answer, access_log=None, handler_cancellation=True)
        self._listener: asyncio.Server | None = None
        self._bookmarks: asyncio.Task[None] | None = None

    # The life of the server.

    async def __aenter__(self) -> Self:
        await self.resume()
        self._bookmarks = asyncio.create_task(self._bookmark_for_ever())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._bookmarks is not None
        self._bookmarks.cancel()
        await asyncio.gather(self._bookmarks, return_exceptions=True)
        self._drop()
        await self._http.shutdown(1)

    @property
    def url(self) -> str:
        """Where the server listens."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._port}{self._prefix}"

    async def pause(self) -> None:
        """Stop listening and reset all connections."""
        self._drop()
        await self.wait_watchers(0)

    async def resume(self) -> None:
        """Listen, on the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        context = _context(self._tls) if self._tls else None
        self._listener = await loop.create_server(
            self._http, "127.0.0.1", self._port, ssl=context, backlog=512
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    def _drop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in self._http.connections:
            reset(connection.transport)

    async def _bookmark_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._bookmark_every)
            self.bookmark()

    # What a test does with the state.

    def put(self, obj: Body) -> int:
        """Create or replace an object and notify the watchers; the new resourceVersion."""
        return self._notify(self.store.put(_resource(str(obj.get("kind"))), obj)).version

    def delete(self, kind: str, namespace: str, name: str) -> int:
        """Delete an object and notify the watchers; the version of the deletion."""
        return self._notify(self.store.delete(_resource(kind), (namespace, name))).version

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """A copy of an object."""
        stored = self.store.get(_resource(kind), (namespace, name))
        return None if stored is None else decode_body(_resource(kind), stored)

    def objects(self, kind: str) -> list[Body]:
        """Copies of all objects of a kind, in order of namespace and name."""
        resource = _resource(kind)
        page = self.store.list(resource, Selection())
        return [decode_body(resource, stored) for stored in page.items]

    def compact(self) -> None:
        """Forget the history: older versions and continue tokens have expired from here on."""
        self.store.compact()

    def bookmark(self) -> None:
        """Send a bookmark to all watchers that allow it."""
        for watcher in self._watchers:
            watcher.bookmark(self.store.version)

    def encode_ahead(self, path: str, query: Mapping[str, str]) -> None:
        """Encode what answers to this path and query begin with, before anybody asks."""
        target = target_of(path)
        assert target is not None
        selection = parse_options(target, query).selection
        page = self.store.list(target.resource, selection)
        assert self._encoded.list_of(target.resource, selection, page).gzipped
        for protobuf in (False, True):
            self._encoded.initial_of(target.resource, selection, protobuf=protobuf).gzipped()

    def watchers_of(self, kind: str) -> list[Watcher]:
        """The open watches of a kind: what they have been sent, and when."""
        return [watcher for watcher in self._watchers if watcher.resource.kind == kind]

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return len(self._watchers)

    async def wait_watchers(self, count: int, within: float = 10.0) -> None:
        """Wait until exactly so many watches are open."""
        async with asyncio.timeout(within):
            while len(self._watchers) != count:
                self._watchers_changed.clear()
                await self._watchers_changed.wait()

    def _notify(self, change: Change) -> Change:
        for watcher in self._watchers:
            watcher.notify(change)
        return change

    # Requests.

    def http1(self) -> asyncio.Protocol:
        """What serves one connection."""
        return self._http()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What a request gets, which is recorded."""
        path = request.path.removeprefix(self._prefix)
        query = dict(request.query)
        self.requests.append(Request(request.method, path, query, request.headers))
        refusal = self.faults.refusal_for(
            request.path_qs,
            watch=query.get("watch") in ("1", "true"),
            watchlist=query.get("sendInitialEvents") == "true",
        )
        try:
            _check_prefix(request.path, self._prefix)
            if refusal is not None and not refusal.as_event:
                raise refusal.error
            self._authenticate(request)
            return await self._dispatch(request, path, refusal)
        except ApiError as error:
            response = _refusal(request, error)
            if refusal is not None and refusal.retry_after is not None:
                response.headers["Retry-After"] = str(refusal.retry_after)
            return response

    def _authenticate(self, request: web.BaseRequest) -> None:
        client_ca = self._tls.client_ca if self._tls else None
        if self.tokens is None and client_ca is None:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if self.tokens and scheme == "Bearer" and token in self.tokens:
            return
        if client_ca and request.transport and request.transport.get_extra_info("peercert"):
            return
        raise ApiError(401, "Unauthorized")

    async def _dispatch(
        self, request: web.BaseRequest, path: str, refusal: Refusal | None
    ) -> web.StreamResponse:
        if path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        document = discovery(path.rstrip("/"))
        if document is not None:
            return _json(msgspec.json.encode(document))
        target = target_of(path)
        if target is None:
            raise ApiError(404, "the server could not find the requested resource")
        if request.method != "GET":
            return await self._write(request, target)
        if target.name is not None:
            return _json(whole(target.resource, existing(self.store, target).encoded))
        options = parse_options(target, request.query)
        if options.watch:
            return await self._watch(request, target, options, refusal)
        return await self._list(request, target, options)

    async def _list(
        self, request: web.BaseRequest, target: Target, options: Options
    ) -> web.StreamResponse:
        page = page_of(
            self.store, target.resource, options, cached=not self.faults.paginate_cached
        )
        body = self._encoded.list_of(target.resource, options.selection, page)
        if self._sends_protobuf(request):
            return web.Response(body=list_body(body.plain), headers={"Content-Type": PROTOBUF})
        gzip = len(body.plain) > GZIP_ABOVE and _takes_gzip(request)
        if self.faults.rate is None and not gzip:
            return _json(body.plain)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if gzip:
            response.headers["Content-Encoding"] = "gzip"
        outlet = Outlet(response, gzip=False, rate=lambda: self.faults.rate)
        await response.prepare(request)
        await outlet.write(body.gzipped if gzip else body.plain)
        await outlet.finish()
        return response

    async def _watch(
        self,
        request: web.BaseRequest,
        target: Target,
        options: Options,
        refusal: Refusal | None,
    ) -> web.StreamResponse:
        protobuf = self._sends_protobuf(request)
        watcher = self._opened(target, options, refusal, protobuf=protobuf)
        loop = asyncio.get_running_loop()
        deadline = None if options.timeout is None else loop.time() + options.timeout
        content_type = f"{PROTOBUF};stream=watch" if protobuf else "application/json"
        response = web.StreamResponse(headers={"Content-Type": content_type})
        gzip = bool(options.initial_events) and _takes_gzip(request)
        outlet = Outlet(response, gzip=gzip, rate=lambda: self.faults.rate)
        self._watchers.append(watcher)
        self._watchers_changed.set()
        try:
            await response.prepare(request)
            await serve_watch(request, watcher, outlet, deadline)
        finally:
            self._watchers.remove(watcher)
            self._watchers_changed.set()
        return response

    def _sends_protobuf(self, request: web.BaseRequest) -> bool:
        """What the first type in Accept says; refused with 406 if that is all, and not known."""
        asked = [each.strip() for each in request.headers.get("Accept", "*/*").split(",")]
        if asked[0] != PROTOBUF:
            return False
        if not self.knows_protobuf and len(asked) == 1:
            raise ApiError(406, "only the following media types are accepted: application/json")
        return self.knows_protobuf

    def _opened(
        self, target: Target, options: Options, refusal: Refusal | None, *, protobuf: bool
    ) -> Watcher:
        """A watcher with its initial events already in its queue."""
        version = options.version or self.store.version
        streaming = options.initial_events is not False and (
            bool(options.initial_events) or not options.version
        )
        start = self.store.version if streaming else version
        watcher = Watcher(target.resource, options, start, protobuf=protobuf)
        try:
            if refusal is not None:
                raise refusal.error
            if streaming:
                self._queue_all(watcher, options.version or 0)
            else:
                for change in self.store.changes_since(target.resource, version):
                    watcher.notify(change)
        except ApiError as error:
            watcher.fail(error)
        return watcher

    def _queue_all(self, watcher: Watcher, at_least: int) -> None:
        if at_least > self.store.version:
            raise too_large(at_least, self.store.version)
        selection = watcher.options.selection
        watcher.initial = self._encoded.initial_of(
            watcher.resource, selection, protobuf=watcher.protobuf
        )
        watcher.bookmark(self.store.version, initial_end=True)

    async def _write(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        dry = "dryRun" in request.query
        if request.method == "DELETE" and target.name is not None:
            stored = existing(self.store, target)
            if not dry:
                self._notify(self.store.delete(target.resource, stored.key))
            return _json(whole(target.resource, stored.encoded))
        given = _body(await request.read())
        body = body_to_store(self.store, target, given, (request.method, request.content_type))
        code = 201 if request.method == "POST" else 200
        if dry or same(self.store, target.resource, body):
            return _json(msgspec.json.encode(body), code)
        change = self._notify(self.store.put(target.resource, body))
        assert change.after is not None
        return _json(whole(target.resource, change.after.encoded), code)


def _resource(kind: str) -> Resource:
    resource = RESOURCE_OF_KIND.get(kind)
    if resource is None:
        raise ValueError(f"the test API server does not know the kind {kind!r}")
    return resource


def _check_prefix(path: str, prefix: str) -> None:
    if not path.startswith(prefix + "/"):
        raise ApiError(404, "404 page not found")


def _context(tls: ServerTLS) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.pair.cert, tls.pair.key)
    if tls.client_ca is not None:
        context.load_verify_locations(tls.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL  # a client without one gets a 401
    return context


def _body(data: bytes) -> Body:
    try:
        return msgspec.json.decode(data, type=Body)
    except msgspec.MsgspecError as error:
        raise ApiError(415, f"the body of the request is not JSON: {error}") from error


def _refusal(request: web.BaseRequest, error: ApiError) -> web.Response:
    status = status_of(error)
    if error.code != 406 and request.headers.get("Accept", "").startswith(PROTOBUF):
        body, headers = status_body(status), {"Content-Type": PROTOBUF}
        return web.Response(body=body, status=error.code, headers=headers)
    return _json(msgspec.json.encode(status), error.code)


def _takes_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _json(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, headers={"Content-Type": "application/json"})


if __name__ == "__main__":
    from fakes.apimain import main

    main()
