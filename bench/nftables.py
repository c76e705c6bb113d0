"""Table to kernel: first fill, one endpoint changed, restart with nothing to do.

Runs in a network namespace of its own: `python -m bench.stages` sees to that.
"""

import asyncio
import statistics
import sys
import time

from bench.clusters import NODE, Size, endpoint_slice, objects
from bench.memory import peak, resident
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.nftables.apply import Nftables, Settings
from kubeproxy.dataplane.nftables.guard import Guard
from kubeproxy.inet import Family, Prefix
from kubeproxy.kernel.nfnetlink import Nfnetlink
from kubeproxy.model.cluster import Cluster
from kubeproxy.objects.decode import decode
from kubeproxy.objects.meta import Kind
from kubeproxy.table.build import Builder
from kubeproxy.table.compile import Vantage
from kubeproxy.table.diff import NO_CHANGES
from kubeproxy.table.node import Node, PodCIDR

THIS_NODE = Node(
    Family.IPV4,
    ("192.0.2.1",),
    PodCIDR(Prefix("10.128.0.0", 9)),
    node_port_ranges=(Prefix("192.0.2.1", 32),),
    service_cidrs=(Prefix("10.96.0.0", 12),),
)


class Timed(Nfnetlink):
    """The kernel, with a watch on how long each transaction holds it, and what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.sent: list[int] = []

    def commit(self, messages: "list[bytes]", generation: int | None = None) -> None:  # type: ignore[override]  # all callers give lists
        started = time.perf_counter()
        super().commit(messages, generation)
        if messages:
            self.seconds.append(time.perf_counter() - started)
            self.sent.append(sum(map(len, messages)))


def compiled(size: Size) -> tuple[Cluster, Builder, Vantage]:
    cluster, builder = Cluster(NODE), Builder(Family.IPV4)
    for kind, data in objects(size):
        cluster.upsert(kind, decode(kind, data))
    vantage = Vantage(cluster.place, "192.0.2.1")
    builder.update(cluster, (), vantage)
    return cluster, builder, vantage


async def main(size: Size) -> None:
    cluster, builder, vantage = compiled(size)
    before = resident()
    kernel = Timed()
    dataplane = Nftables(Family.IPV4, Settings(), kernel, Guard())
    started = time.perf_counter()
    await dataplane.apply(Update(builder.table, THIS_NODE, NO_CHANGES, full=True))
    filled = time.perf_counter() - started
    print(
        f"{size}: programmed {filled:.2f} s, of it kernel {sum(kernel.seconds):.2f} s "
        f"(longest transaction {max(kernel.seconds) * 1000:.0f} ms), "
        f"{sum(kernel.sent) / 1e6:.1f} MB sent"
    )
    changes = []
    kernel.sent.clear()
    for version in range(1, 201):
        data = endpoint_slice(version % size.services, size.endpoints, version=version)
        begun = time.perf_counter()
        touched = cluster.upsert(Kind.ENDPOINT_SLICE, decode(Kind.ENDPOINT_SLICE, data))
        difference = builder.update(cluster, [key for _, key in touched.services], vantage)
        await dataplane.apply(Update(builder.table, THIS_NODE, difference, full=False))
        changes.append((time.perf_counter() - begun) * 1000)
    cuts = statistics.quantiles(changes, n=100)
    print(
        f"{size}: one endpoint changed, event to kernel: p50 {cuts[49]:.2f} ms, "
        f"p99 {cuts[98]:.2f} ms, {statistics.median(kernel.sent):.0f} bytes sent"
    )
    again = Nftables(Family.IPV4, Settings(), Nfnetlink(), Guard())
    started = time.perf_counter()
    report = await again.apply(Update(builder.table, THIS_NODE, NO_CHANGES, full=True))
    compared = time.perf_counter() - started
    assert report.written == 0
    print(
        f"{size}: restart, compare with nothing to do: {compared:.2f} s; resident "
        f"{before:.0f} MB with the table, {resident():.0f} MB now, peak {peak():.0f} MB"
    )


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3]))))
