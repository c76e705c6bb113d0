"""What a changed slice costs the daemon, counted: lines of our code, system calls, bytes."""

import sys
from collections.abc import Iterable
from types import FrameType
from typing import NamedTuple, Self

from bench.clusters import NODE, NODE_ADDRESS

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
from kubeproxy.table.node import NodeView, PodCIDR

SOURCES = kubeproxy.__path__[0]
ZONE = "zone-0"


class Cost(NamedTuple):
    """Lines of our code run, system calls on the socket, bytes sent."""

    lines: int
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

    def __init__(self) -> None:
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
            zone=ZONE,
        )
        self._sync = FamilySync(
            cluster,
            Family.IPV4,
            SyncTarget(self._dataplane),
            Schedule(0, 30, 3600),
            lambda: node,
        )
        self._handler = EventHandler(cluster, (self._sync,), lambda: None)

    async def fill(self, objects: Iterable[tuple[Kind, bytes]]) -> None:
        for kind, data in objects:
            self._handler.deliver(Upsert(kind, decode(kind, data)))
        for kind in (Kind.SERVICE, Kind.ENDPOINT_SLICE):
            self._handler.deliver(Synced(kind))
        self._handler.ready()
        await self._sync.sync()
        assert not self._sync.failed

    async def change(self, data: bytes) -> None:
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


async def cost_of(objects: Iterable[tuple[Kind, bytes]], first: bytes, second: bytes) -> Cost:
    """What the second change costs: at the first, what is done once in a life is done."""
    daemon = Daemon()
    await daemon.fill(objects)
    await daemon.change(first)
    counted = daemon.kernel.counted
    before = counted.calls, counted.sent
    with Lines() as lines:
        await daemon.change(second)
    await daemon.close()
    return Cost(lines.count, counted.calls - before[0], counted.sent - before[1])
