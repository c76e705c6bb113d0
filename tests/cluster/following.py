"""A consumer of the events of the test API server, with what tests ask about it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from fakes.apiserver import FakeApiServer
from kubeproxy.cluster.client.access import Access, ClusterEntry, UserEntry
from kubeproxy.cluster.client.contenttypes import ONLY_JSON, Accepts
from kubeproxy.cluster.client.http_client import RateLimit
from kubeproxy.cluster.client.observed import Attempt, Exchange
from kubeproxy.cluster.events import Delete, Event, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.cluster.source import Gap
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings

NODE = "node-1"


class Consumer:
    """Keeps what it had until Synced, as `cluster.events` demands."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.attempts: list[Attempt] = []
        self.exchanges: list[Exchange] = []
        self._objects: dict[Kind, dict[str, KubeObject]] = {kind: {} for kind in Kind}
        self._unlisted: dict[Kind, set[str]] = {}
        self._changed = asyncio.Event()
        self.gaps: Callable[[], Sequence[Gap]] = tuple

    def deliver(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()
        objects = self._objects[event.kind]
        match event:
            case Reset():
                self._unlisted[event.kind] = set(objects)
            case Upsert(object=found):
                objects[found.metadata.name] = found
                self._unlisted[event.kind].discard(found.metadata.name)
            case Keep(key=key):
                self._unlisted[event.kind].discard(key.name)
            case Delete(key=key):
                objects.pop(key.name, None)
            case Synced():
                for name in self._unlisted[event.kind]:
                    del objects[name]

    def observed(self, observation: Attempt | Exchange) -> None:
        if isinstance(observation, Attempt):
            self.attempts.append(observation)
        else:
            self.exchanges.append(observation)
        self._changed.set()

    def names(self, kind: Kind = Kind.SERVICE) -> set[str]:
        return set(self._objects[kind])

    def object(self, kind: Kind, name: str) -> KubeObject:
        return self._objects[kind][name]

    def lists(self, kind: Kind = Kind.SERVICE) -> int:
        return sum(event == Synced(kind) for event in self.events)

    async def wait(self, condition: Callable[[], bool], within: float = 10.0) -> None:
        """Wait until something that was delivered or tried makes the condition true."""
        async with asyncio.timeout(within):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_names(self, *names: str, kind: Kind = Kind.SERVICE) -> None:
        await self.wait(lambda: self.names(kind) == set(names))

    async def wait_synced(self, kind: Kind = Kind.SERVICE, times: int = 1) -> None:
        await self.wait(lambda: self.lists(kind) >= times)


def access_to(
    server: FakeApiServer, cluster: ClusterEntry | None = None, user: UserEntry | None = None
) -> Access:
    return Access(
        server=server.url,
        cluster=cluster or ClusterEntry(),
        user=user or UserEntry(),
        user_name="u",
    )


@contextlib.asynccontextmanager
async def following(
    access: Access | FakeApiServer,
    *kinds: Kind,
    watch_list: bool = True,
    rate_limit: RateLimit | None = None,
    accepts: Accepts = ONLY_JSON,
) -> AsyncIterator[Consumer]:
    """Watch the kinds (Services by default) as long as the context lasts."""
    if isinstance(access, FakeApiServer):
        access = access_to(access)
    limit = rate_limit or RateLimit(-1)
    settings = WatchSettings(NODE, kinds or (Kind.SERVICE,), watch_list, limit, accepts)
    consumer = Consumer()
    source = ApiServer(access, settings, environ={}, observe=consumer.observed)
    consumer.gaps = source.gaps
    task = asyncio.create_task(source.run(consumer.deliver))
    try:
        yield consumer
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled(), task.exception()


def service(name: str, **spec: object) -> dict[str, object]:
    """A Service as a test puts it into the server."""
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"clusterIP": "10.0.0.1", **spec},
    }
