"""Table to kernel through iptables-restore: our own share of a sync, and that of the programs.

Runs in a network namespace of its own: `unshare --net python -m bench.iptables 5000 10`. In a
user namespace the nft kind of the programs has too small a buffer for such clusters.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

from bench.clusters import NODE, Size, endpoint_slice, objects
from bench.memory import resident
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.iptables.apply import Iptables, Settings
from kubeproxy.inet import Family, Prefix
from kubeproxy.kernel.xtables import Xtables
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
    node_port_ranges=(Prefix("0.0.0.0", 0),),
)
CHANGES = 20


class Timed(Xtables):
    """The programs, with a watch on them; or none of them, to see our own share alone."""

    def __init__(self, family: Family, *, idle: bool) -> None:
        super().__init__(family)
        self.seconds = 0.0
        self.sent = 0
        self._idle = idle

    def _run(
        self, verb: str, arguments: Sequence[str], text: str = "", *, wait: bool = True
    ) -> str:
        self.sent += len(text)
        begun = time.perf_counter()
        said = "" if self._idle else super()._run(verb, arguments, text, wait=wait)
        self.seconds += time.perf_counter() - begun
        return said


async def main(size: Size, *, idle: bool) -> None:
    cluster = Cluster(NODE)
    for kind, data in objects(size):
        cluster.upsert(kind, decode(kind, data))
    builder = Builder(Family.IPV4)
    vantage = Vantage(cluster.place)
    changes = builder.update(cluster, (), vantage)
    programs = Timed(Family.IPV4, idle=idle)
    dataplane = Iptables(Family.IPV4, Settings(), programs)
    before = resident()
    first = await _timed(dataplane, programs, Update(builder.table, THIS_NODE, changes, full=True))
    print(f"{size}: first full sync: {first}, {programs.sent / 1e6:.1f} MB to restore")
    again = Update(builder.table, THIS_NODE, NO_CHANGES, full=True)
    print(f"{size}: another full sync: {await _timed(dataplane, programs, again)}")
    shares: list[_Shares] = []
    for version in range(1, CHANGES + 1):
        data = endpoint_slice(version % size.services, size.endpoints, version=version)
        begun = time.perf_counter()
        touched = cluster.upsert(Kind.ENDPOINT_SLICE, decode(Kind.ENDPOINT_SLICE, data))
        difference = builder.update(cluster, [key for _, key in touched.services], vantage)
        compiled = time.perf_counter() - begun
        update = Update(builder.table, THIS_NODE, difference, full=False)
        took = await _timed(dataplane, programs, update)
        shares.append(_Shares(took.own + compiled, took.programs))
    middle = _Shares(
        statistics.median(each.own for each in shares),
        statistics.median(each.programs for each in shares),
    )
    print(f"{size}: one endpoint changed, event to kernel, median: {middle}")
    print(f"{size}: resident {before:.0f} MB with the table, {resident():.0f} MB now")


class _Shares:
    """How long we took, and how long the programs."""

    def __init__(self, own: float, programs: float) -> None:
        self.own = own
        self.programs = programs

    def __str__(self) -> str:
        return f"own {self.own * 1000:.1f} ms, programs {self.programs * 1000:.0f} ms"


async def _timed(dataplane: Iptables, programs: Timed, update: Update) -> _Shares:
    programs.seconds = 0.0
    begun = time.perf_counter()
    await dataplane.apply(update)
    whole = time.perf_counter() - begun
    return _Shares(whole - programs.seconds, programs.seconds)


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3])), idle="--idle" in sys.argv))
