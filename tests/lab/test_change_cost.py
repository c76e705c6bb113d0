"""What one changed endpoint costs, counted and not timed: a machine's mood cannot hide a loop.

From the JSON of the event to the answer of the kernel. Everything is counted in a small cluster
and in a large one: cost follows change, so both must be equal.
"""

import asyncio
import math
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple, Self

import pytest
from bench.clusters import NODE, NODE_ADDRESS, Size, endpoint_slice, objects

import kubeproxy
from kubeproxy.base.inet import Family, Prefix
from kubeproxy.cluster.events import Synced, Upsert
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.engine.handler import EventHandler
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.compile import compile_service
from kubeproxy.table.node import NodeView, PodCIDR
from lab.namespaces import Namespace

FEW, MANY = Size(20, 4), Size(2000, 4)
SOURCES = kubeproxy.__path__[0]

MOST_LINES = 2000
MOST_CALLS = 8
MOST_BYTES = 500


class Cost(NamedTuple):
    """Lines of our code run, services compiled, system calls on the socket, bytes sent."""

    lines: int
    compiled: int
    calls: int
    sent: int


class CountedSocket:
    """The socket, with its system calls counted."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.calls = 0
        self.sent = 0

    def __getattr__(self, name: str) -> object:
        self.calls += 1
        return getattr(self._inner, name)

    def send(self, data: bytes) -> int:
        self.calls += 1
        self.sent += len(data)
        sent: int = self._inner.send(data)  # type: ignore[attr-defined]  # it is a socket
        return sent


class CountedKernel(Nfnetlink):
    """A netfilter socket whose system calls are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = CountedSocket(self._socket)
        self._socket = self.counted  # type: ignore[assignment]  # stands in for it


class Daemon:
    """What the daemon does with events, without the daemon."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._compiled = 0
        self.kernel = CountedKernel()
        self._dataplane = Nftables(Family.IPV4, NftablesSettings(), self.kernel, TableGuard())
        cluster = Cluster(NODE)
        node = NodeView(
            Family.IPV4,
            (NODE_ADDRESS,),
            PodCIDR(Prefix("10.128.0.0", 9)),
            node_port_ranges=(Prefix(NODE_ADDRESS, 32),),
            name=NODE,
            ip=NODE_ADDRESS,
        )
        self._sync = FamilySync(
            cluster,
            Family.IPV4,
            SyncTarget(self._dataplane),
            Schedule(0, 30, 3600),
            lambda: node,
        )
        self._handler = EventHandler(cluster, (self._sync,), lambda: None)

    async def fill(self) -> None:
        for kind, data in objects(self._size):
            self._handler.deliver(Upsert(kind, decode(kind, data)))
        for kind in (Kind.SERVICE, Kind.ENDPOINT_SLICE):
            self._handler.deliver(Synced(kind))
        self._handler.ready()
        await self._sync.sync()
        assert not self._sync.failed

    async def change(self, version: int) -> None:
        data = endpoint_slice(7, self._size.endpoints, version=version)
        slice_ = decode(Kind.ENDPOINT_SLICE, data)
        self._handler.deliver(Upsert(Kind.ENDPOINT_SLICE, slice_))
        await self._sync.sync()
        assert not self._sync.failed

    async def close(self) -> None:
        await self._dataplane.close()


class Lines:
    """Counts the lines of our code that run while the context lasts."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)  # type: ignore[arg-type]  # typeshed's type names itself
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        self.count += event == "line"
        return self._trace


@pytest.fixture
def namespace(_own_namespaces: None) -> Iterator[Namespace]:
    made = Namespace("change-cost")
    yield made
    made.close()


async def cost_of_one_change(size: Size, compiled: list[object]) -> Cost:
    daemon = Daemon(size)
    await daemon.fill()
    await daemon.change(1)  # what is done once in a life is done
    counted = daemon.kernel.counted
    before = counted.calls, counted.sent
    del compiled[:]
    with Lines() as lines:
        await daemon.change(2)
    cost = Cost(lines.count, len(compiled), counted.calls - before[0], counted.sent - before[1])
    await daemon.close()
    return cost


def test_one_change_costs_the_same_work_in_a_cluster_of_any_size(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []

    def counting(*arguments: object) -> object:
        compiled.append(arguments[0])
        return compile_service(*arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr("kubeproxy.table.build.compile_service", counting)
    # A pause for other tasks is two lines more, and on a busy machine there is one now and then.
    monkeypatch.setattr("kubeproxy.engine.sync._MOST_SECONDS", math.inf)
    costs = []
    for size in (FEW, MANY):
        with namespace.entered():
            costs.append(asyncio.run(cost_of_one_change(size, compiled)))
        namespace.run(["nft", "flush", "ruleset"])
    print(costs)  # noqa: T201  # shown by -rP
    few, many = costs
    assert few == many
    assert many.compiled == 1
    assert many.lines < MOST_LINES
    assert many.calls < MOST_CALLS
    assert many.sent < MOST_BYTES
