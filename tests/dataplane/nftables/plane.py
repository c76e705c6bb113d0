"""The dataplane on a fake kernel, and services for it."""

from dataplane.nftables.programming import by_chains, filled, table_with
from fakes.nftables import FakeNftables
from fakes.ruleset import KernelTable
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.elements import Elements
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4
from kubeproxy.table.diff import diff
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName, Table
from kubeproxy.table.node import NodeView
from world import Mode, node

HERE = node(Mode.NFTABLES)


def service(
    name: str, number: int, endpoints: int = 2, *, affinity: int = 0, node_port: int = 0
) -> Entry:
    frontends = [Frontend(FrontendKind.CLUSTER_IP, f"10.112.0.{number}", 80)]
    if node_port:
        frontends.append(Frontend(FrontendKind.NODE_PORT, "", node_port))
    return Entry(
        ServicePortName("shop", name, "http", Protocol.TCP),
        tuple(frontends),
        cluster=tuple(Backend(f"10.65.{number}.{i}", 8080) for i in range(endpoints)),
        has_endpoints=endpoints > 0,
        affinity_seconds=affinity,
    )


class Plane:
    """A dataplane on a fake kernel; it gets updates as the sync loop makes them."""

    def __init__(self, kernel: FakeNftables) -> None:
        self.kernel = kernel
        self.guard = TableGuard()
        self.nftables = Nftables(Family.IPV4, NftablesSettings(), kernel, self.guard)
        self.node: NodeView = HERE
        self._before = Table(Family.IPV4)
        self._failed: tuple[Entry, ...] = ()

    async def sync(self, *entries: Entry, full: bool = False) -> SyncReport:
        table = table_with(*entries)
        changes = diff(self._before, table)
        fresh = {entry.name for entry in changes.added} | {e.name for _, e in changes.changed}
        left = table.entries.keys() - fresh
        again = tuple(entry for entry in self._failed if entry.name in left)
        report = await self.nftables.apply(Update(table, self.node, changes, full, again))
        self._before = table
        self._failed = tuple(table.entries[name] for name in report.failed)
        return report

    def settings(self, *, endpoint_counters: bool) -> None:
        """Another way of setting the mode up, before the first update."""
        settings = NftablesSettings(endpoint_counters=endpoint_counters)
        self.nftables = Nftables(Family.IPV4, settings, self.kernel, self.guard)

    def restarted(self) -> "Plane":
        """The next process, on the same kernel."""
        return Plane(FakeNftables(self.kernel.ruleset))

    @property
    def table(self) -> KernelTable:
        return self.kernel.ruleset.tables[NFPROTO_IPV4, TABLE]

    @property
    def elements(self) -> Elements:
        """The elements of the table, with the chains that frontends lead to."""
        return by_chains(self.table.elements())

    @property
    def commits(self) -> int:
        return len(self.kernel.commits)


def expected_elements(*entries: Entry, here: NodeView = HERE) -> Elements:
    return by_chains(filled(table_with(*entries), here).table.elements())
