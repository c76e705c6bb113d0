"""The source of events that lists and watches an API server.

There is one task for each kind, all in one task group: nothing outlives `run`. While the server is
unreachable nothing is delivered, and then only what has changed.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import msgspec

from kubeproxy.base.errors import ApiServerError
from kubeproxy.cluster.client.access import Access, CredentialsError
from kubeproxy.cluster.client.contenttypes import DEFAULT, Accepts, is_protobuf
from kubeproxy.cluster.client.failures import RefusedError, UnreachableError, describe_refusal
from kubeproxy.cluster.client.http_client import HttpClient, RateLimit
from kubeproxy.cluster.client.observed import Observe, ignore
from kubeproxy.cluster.client.resources import (
    ENDPOINT_SLICES,
    LARGE_LIST,
    SERVICE_CIDRS,
    SERVICES,
    Query,
    Resource,
    own_node,
)
from kubeproxy.cluster.client.response import Response
from kubeproxy.cluster.client.status import Status, decode_status
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.objects.decode import UNREADABLE, UndecodableObject, decode_nested
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.source import Gap
from kubeproxy.cluster.watch.incidents import Incident, Output
from kubeproxy.cluster.watch.listwatch import ApiRequest, ListWatch
from kubeproxy.cluster.watch.protobuf_wire import PROTOBUF
from kubeproxy.cluster.watch.reports import Reports
from kubeproxy.cluster.watch.wire import JSON, Encoding

Deliver = Callable[[Event], None]
_Body = TypeVar("_Body")

BATCH = 64
"""So many objects are delivered before other tasks of the event loop run."""


class WatchSettings(msgspec.Struct, frozen=True):
    """What to watch, and how."""

    node_name: str
    kinds: tuple[Kind, ...] = tuple(Kind)
    watch_list: bool = True
    """The feature gate WatchListClient."""
    rate_limit: RateLimit = RateLimit()
    accepts: Accepts = DEFAULT


class ApiServer:
    """A source of events that watches an API server.

    Making one reads the files of the credentials; an `OperatorError` says what is wrong with them.
    """

    def __init__(
        self,
        access: Access,
        settings: WatchSettings,
        *,
        environ: Mapping[str, str] = os.environ,
        observe: Observe = ignore,
    ) -> None:
        self._settings = settings
        self._access = access
        self._new_client = partial(HttpClient, access, settings.rate_limit, environ, observe)
        self._client = self._new_client()
        self._reports = Reports(access)

    async def run(self, deliver: Deliver) -> None:
        """Deliver events, for each kind in order, until cancelled.

        `deliver` is a plain function that must not block. What it raises ends `run`, in an
        exception group.
        """
        async with self._client, asyncio.TaskGroup() as tasks:
            for resource in self._resources():
                settings = self._settings
                protocol = ListWatch(
                    resource, watch_list=settings.watch_list, accepts=settings.accepts
                )
                reflector = _Reflector(resource, protocol, self._client, self._reports, deliver)
                tasks.create_task(reflector.run(), name=f"watch {resource.name}")

    def gaps(self) -> list[Gap]:
        """What cannot be read from the server now."""
        return self._reports.gaps(time.monotonic())

    def silence(self) -> float | None:
        """For how many seconds nothing has come from the server; None before the first time."""
        return self._reports.silence(time.monotonic())

    def _resources(self) -> list[Resource]:
        resource_of_kind = {
            Kind.NODE: own_node(self._settings.node_name),
            Kind.SERVICE: SERVICES,
            Kind.ENDPOINT_SLICE: ENDPOINT_SLICES,
            Kind.SERVICE_CIDR: SERVICE_CIDRS,
        }
        return [resource_of_kind[kind] for kind in self._settings.kinds]

    async def write(self, method: str, path: str, body: bytes, content_type: str) -> Status | None:
        """Send an object with the client of `run`, which must be active.

        Returns why the server refused it; None when it did not. Raises an `UnreachableError` or
        `CredentialsError` when there was no response.
        """
        async with self._client.write(method, path, body, content_type) as response:
            answer = bytes(await response.read_all())
        refused = response.status >= HTTPStatus.BAD_REQUEST
        return decode_status(answer, response.status) if refused else None

    async def get_json(self, path: str, query: Query, type_: type[_Body]) -> _Body:
        """The response to one GET, decoded to a type; for tools.

        Raises an `ApiServerError` when the server cannot be reached, refuses, or sends something
        else.
        """
        async with self._new_client() as client, client.get(path, query) as response:
            body = await response.read_all(LARGE_LIST)
        if response.status != HTTPStatus.OK:
            status = decode_status(bytes(body), response.status)
            text = describe_refusal(status, path, self._access.server, self._access.identity)
            raise RefusedError(text, status)
        try:
            return decode_nested(msgspec.json.Decoder(type_), body)
        except UNREADABLE as error:
            raise ApiServerError(
                f"{self._access.server}{path} answered with something else than expected: {error}"
            ) from error


def _encoding(response: Response) -> Encoding:
    return PROTOBUF if is_protobuf(response.content_type) else JSON


class _Reflector(msgspec.Struct):
    """Sends the requests of one `ListWatch`, and delivers the events that result."""

    _resource: Resource
    _protocol: ListWatch
    _client: HttpClient
    _reports: Reports
    _deliver: Deliver
    _delivered: int = 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        unreachable = False
        while True:
            # Random delays spread the load of many nodes; nothing secret depends on them.
            request = self._protocol.next_request(time.monotonic(), random.random())  # noqa: S311
            if unreachable:  # do not wait longer than the other resources
                await self._client.wait_reachable(request.delay)
            else:
                await asyncio.sleep(request.delay)
            unreachable = False
            try:
                await self._exchange(request)
            except (UnreachableError, CredentialsError) as error:
                now = time.monotonic()
                if self._protocol.streaming and self._protocol.synced:
                    self._reports.cut(self._resource, error)
                else:
                    self._reports.unreachable(self._resource, error, now)
                self._protocol.disconnected(now)
                unreachable = isinstance(error, UnreachableError)

    async def _exchange(self, request: ApiRequest) -> None:
        path, watch, accept = self._resource.path, request.watch, request.accept
        async with self._client.get(path, request.query, accept=accept, watch=watch) as response:
            if response.status != HTTPStatus.OK:
                body = bytes(await response.read_all())
                await self._handle(self._protocol.refused(decode_status(body, response.status)))
            elif watch:
                await self._watch(response)
            else:
                await self._list(response)

    async def _list(self, response: Response) -> None:
        self._protocol.list_opened(_encoding(response))
        async for chunk in response.pieces(self._resource.largest):
            self._reports.heard(time.monotonic())
            await self._handle(self._protocol.receive_list(chunk))
        self._reports.answered(self._resource, time.monotonic())
        await self._handle(self._protocol.listed())

    async def _watch(self, response: Response) -> None:
        response.keep_alive()
        protocol = self._protocol
        await self._handle(protocol.opened(time.monotonic(), _encoding(response)))
        while protocol.streaming:
            if protocol.synced:
                self._reports.answered(self._resource, time.monotonic())
            chunk = await response.read_some(protocol.idle_timeout)
            if chunk is None:
                await self._handle(protocol.idle(time.monotonic()))
            elif chunk:
                self._reports.heard(time.monotonic())
                await self._handle(protocol.receive(chunk))
            else:
                await self._handle(protocol.closed(time.monotonic()))

    async def _handle(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Incident():
                    self._reports.incident(self._resource, output, time.monotonic())
                case UndecodableObject():
                    self._reports.undecodable(output)
                case _:
                    self._deliver(output)
            self._delivered += 1
            if self._delivered % BATCH == 0:
                await asyncio.sleep(0)
