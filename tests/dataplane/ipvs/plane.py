"""A dataplane on a fake kernel, which gets what changes."""

import msgspec

from fakes.ipvs import FakeKernel
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.table.diff import NO_CHANGES, Changes, diff, patch
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from world import Mode, node

QUICK = IpvsSettings(drain_period=0.001)


class Plane:
    """One family of ipvs mode. Node and settings may be others than kestrel's."""

    def __init__(
        self,
        kernel: FakeKernel,
        here: NodeView | None = None,
        settings: IpvsSettings = QUICK,
    ) -> None:
        self.kernel = kernel
        self.node = here or node(Mode.IPVS)
        self.table = Table(self.node.family)
        self.ipvs = IpvsDataplane(settings, kernel.servers, kernel.tables)

    def put(self, wanted: Table, *, full: bool = False) -> SyncReport:
        """Have the kernel be as the table wants it."""
        changes = diff(self.table, wanted)
        patch(self.table, changes)
        return self.apply(changes, full=full)

    def apply(self, changes: Changes = NO_CHANGES, *, full: bool = False) -> SyncReport:
        with self.kernel.installed():
            return self.ipvs._sync(Update(self.table, self.node, changes, full))

    def move(self, *addresses: str) -> SyncReport:
        """The node has other addresses now."""
        self.node = msgspec.structs.replace(self.node, addresses=addresses)
        return self.apply()


def fresh(table: Table, here: NodeView | None = None) -> FakeKernel:
    """A kernel that was programmed at once, from nothing."""
    kernel = FakeKernel(table.family)
    report = Plane(kernel, here or node(Mode.IPVS, table.family)).put(table, full=True)
    assert report.failed == {}
    return kernel


def empty(family: Family = Family.IPV4) -> Table:
    return Table(family)
