"""The cluster's state from an API server: aiohttp around the list+watch machine.

One task a kind, all under one task group: nothing here outlives `run`. Losing the server changes
nothing for the consumer: nothing is delivered until it is back, and then only what changed.
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
from kubeproxy.cluster.client.answer import Answer
from kubeproxy.cluster.client.connection import Connection, Limits
from kubeproxy.cluster.client.failures import RefusedError, UnreachableError, describe_refusal
from kubeproxy.cluster.client.observed import Observe, nobody
from kubeproxy.cluster.client.resources import (
    ENDPOINT_SLICES,
    LARGE_LIST,
    SERVICE_CIDRS,
    SERVICES,
    Query,
    Resource,
    own_node,
)
from kubeproxy.cluster.client.status import Status, decode_status
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.nesting import UNREADABLE, decode_nested
from kubeproxy.cluster.source import Gap
from kubeproxy.cluster.watch.listwatch import ListWatch, Request, Verb
from kubeproxy.cluster.watch.reports import Reports
from kubeproxy.cluster.watch.setbacks import Saying, Setback, Skipped

Deliver = Callable[[Event], None]
_Answer = TypeVar("_Answer")

BATCH = 64
"""So many objects are delivered before others get their turn on the event loop."""


class Settings(msgspec.Struct, frozen=True):
    """What to follow, and how."""

    node_name: str
    kinds: tuple[Kind, ...] = tuple(Kind)
    watch_list: bool = True
    """The feature gate WatchListClient."""
    limits: Limits = Limits()


class ApiServer:
    """A source that follows an API server.

    Making one reads the files of the credentials: an `OperatorError` says what is wrong with them.
    """

    def __init__(
        self,
        access: Access,
        settings: Settings,
        *,
        environ: Mapping[str, str] = os.environ,
        observe: Observe = nobody,
    ) -> None:
        self._settings = settings
        self._access = access
        self._connect = partial(Connection, access, settings.limits, environ, observe)
        self._connection = self._connect()
        self._reports = Reports(access)

    async def run(self, deliver: Deliver) -> None:
        """Deliver what happens, for each kind in order, until cancelled.

        `deliver` is a plain function that must not block. What it raises ends `run`, in an
        exception group.
        """
        async with self._connection, asyncio.TaskGroup() as tasks:
            for resource in self._resources():
                machine = ListWatch(resource, watch_list=self._settings.watch_list)
                follower = _Follower(machine, resource, self._connection, self._reports, deliver)
                tasks.create_task(follower.run(), name=f"follow {resource.name}")

    def gaps(self) -> list[Gap]:
        """What the server does not tell us of now."""
        return self._reports.gaps(time.monotonic())

    def _resources(self) -> list[Resource]:
        resource_of_kind = {
            Kind.NODE: own_node(self._settings.node_name),
            Kind.SERVICE: SERVICES,
            Kind.ENDPOINT_SLICE: ENDPOINT_SLICES,
            Kind.SERVICE_CIDR: SERVICE_CIDRS,
        }
        return [resource_of_kind[kind] for kind in self._settings.kinds]

    async def write(self, method: str, path: str, body: bytes, content_type: str) -> Status | None:
        """Send an object, on the connections of `run`, which must be under way.

        What the server has against it; None when it took it. Raises an `UnreachableError` or
        `CredentialsError` when it could not be asked.
        """
        async with self._connection.write(method, path, body, content_type) as answer:
            said = await answer.read_all()
        return (
            None
            if answer.status < HTTPStatus.BAD_REQUEST
            else decode_status(bytes(said), answer.status)
        )

    async def get_json(self, path: str, query: Query, type_: type[_Answer]) -> _Answer:
        """The answer to one GET, decoded to a type; for tools.

        Raises an `ApiServerError` when the server cannot be reached, refuses, or answers with
        something else.
        """
        async with self._connect() as connection, connection.get(path, query) as answer:
            body = await answer.read_all(LARGE_LIST)
        if answer.status != HTTPStatus.OK:
            status = decode_status(bytes(body), answer.status)
            text = describe_refusal(status, path, self._access.server, self._access.identity)
            raise RefusedError(text, status)
        try:
            return decode_nested(msgspec.json.Decoder(type_), body)
        except UNREADABLE as error:
            raise ApiServerError(
                f"{self._access.server}{path} answered with something else than expected: {error}"
            ) from error


class _Follower:
    """Carries the requests of one machine to the server, and what comes back to the consumer."""

    def __init__(
        self,
        machine: ListWatch,
        resource: Resource,
        connection: Connection,
        reports: Reports,
        deliver: Deliver,
    ) -> None:
        self._machine = machine
        self._resource = resource
        self._connection = connection
        self._reports = reports
        self._deliver = deliver
        self._delivered = 0

    async def run(self) -> None:
        """Follow for ever."""
        lost = False
        while True:
            # Chance spreads the load of many nodes; nothing secret depends on it.
            request = self._machine.next_request(time.monotonic(), random.random())  # noqa: S311
            if lost:  # what reaches one of us reaches all of us
                await self._connection.wait_reachable(request.delay)
            else:
                await asyncio.sleep(request.delay)
            lost = False
            try:
                await self._exchange(request)
            except (UnreachableError, CredentialsError) as error:
                self._failed(error)
                lost = isinstance(error, UnreachableError)

    def _failed(self, error: Exception) -> None:
        now = time.monotonic()
        if self._machine.streaming and self._machine.told:
            self._reports.cut(self._resource, error)
        else:
            self._reports.unreachable(self._resource, error, now)
        self._machine.broke(now)

    async def _exchange(self, request: Request) -> None:
        watch = request.verb is Verb.WATCH
        path = self._resource.path
        async with self._connection.get(path, request.query, watch=watch) as answer:
            if answer.status != HTTPStatus.OK:
                await self._refused(answer)
                return
            if watch:
                await self._watch(answer)
                return
            body = await answer.read_all(self._resource.largest)
            self._reports.answered(self._resource, time.monotonic())
            await self._say(self._machine.received_list(body))

    async def _refused(self, answer: Answer) -> None:
        status = decode_status(bytes(await answer.read_all()), answer.status)
        setback = self._machine.refused(status)
        if setback is not None:
            await self._say([setback])

    async def _watch(self, answer: Answer) -> None:
        answer.keep_alive()
        machine = self._machine
        await self._say(machine.opened(time.monotonic()))
        while machine.streaming:
            if machine.told:
                self._reports.answered(self._resource, time.monotonic())
            chunk = await answer.read_some(machine.patience)
            if chunk is None:
                await self._say(machine.quiet(time.monotonic()))
            elif chunk:
                await self._say(machine.receive(chunk))
            else:
                await self._say(machine.closed(time.monotonic()))

    async def _say(self, sayings: Iterable[Saying]) -> None:
        for saying in sayings:
            match saying:
                case Setback():
                    self._reports.setback(self._resource, saying, time.monotonic())
                case Skipped():
                    self._reports.skipped(self._resource, saying)
                case _:
                    self._deliver(saying)
            self._delivered += 1
            if self._delivered % BATCH == 0:
                await asyncio.sleep(0)
