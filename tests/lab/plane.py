"""Nftables mode driven by the test itself, without a daemon: thousands of syncs in a second."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence

from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.describe import describe
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.diff import NO_CHANGES, Changes, diff, patch
from kubeproxy.table.entries import Entry, Table
from kubeproxy.table.node import NodeView
from lab.namespaces import Namespace


class Recorder(Nfnetlink):
    """A netfilter socket that notes how large its transactions were, and which were refused."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.refused: list[Refused] = []

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        try:
            super().commit(messages, generation)
        except Refused as error:
            self.refused.append(error)
            raise
        if messages:
            self.sizes.append(sum(map(len, messages)))


class Plane:
    """One family of nftables mode in a namespace.

    Threads that the dataplane starts are children of this one while it is inside, and stay there.
    """

    def __init__(
        self, namespace: Namespace, node: NodeView, settings: NftablesSettings | None = None
    ) -> None:
        self.node = node
        self.table = Table(node.family)
        self.settings = settings or NftablesSettings()
        self._namespace = namespace
        self._runner = asyncio.Runner()
        self._start()

    def _start(self) -> None:
        with self._namespace.entered():
            self.kernel = Recorder()
        self._dataplane = Nftables(self.node.family, self.settings, self.kernel, TableGuard())
        self._is_known = False

    @property
    def entry(self) -> Entry:
        """The entry, where there is one only."""
        (entry,) = self.table.entries.values()
        return entry

    def put(self, entries: Iterable[Entry]) -> SyncReport:
        """These are all entries now: programs what that changes."""
        return self.change(diff(self.table, self._table(entries)))

    def expect(self, entries: Iterable[Entry]) -> None:
        """These are all entries now, and none is programmed: the next sync is full."""
        self.table = self._table(entries)

    def _table(self, entries: Iterable[Entry]) -> Table:
        found = Table(self.node.family)
        for entry in entries:
            found.put(entry)
        return found

    def change(self, changes: Changes) -> SyncReport:
        """Program a change."""
        patch(self.table, changes)
        return self._apply(changes, full=not self._is_known)

    def resync(self) -> SyncReport:
        """Compare everything with the kernel."""
        return self._apply(NO_CHANGES, full=True)

    def restart(self) -> SyncReport:
        """Forget what is known, as a process that starts: a full sync of the same table."""
        self._end()
        self._start()
        return self.resync()

    def text(self) -> str:
        """The rules, as we would write them."""
        heals = any(entry.healing for entry in self.table.entries.values())
        wanted = program(self.node, self.settings, heals=heals)
        return describe(wanted, self.table, self.node)

    def _apply(self, changes: Changes, *, full: bool) -> SyncReport:
        update = Update(self.table, self.node, changes, full)
        with self._namespace.entered():
            report = self._runner.run(self._dataplane.apply(update))
            self._runner.run(self._dataplane.pins.settle())
        self._is_known = True
        return report

    def _end(self) -> None:
        self._runner.run(self._dataplane.close())

    def close(self) -> None:
        """End; what is programmed is removed."""
        self._end()
        self._runner.close()
        self._namespace.run(["nft", "flush", "ruleset"])


@contextlib.contextmanager
def plane(
    namespace: Namespace, node: NodeView, settings: NftablesSettings | None = None
) -> Iterator[Plane]:
    """A plane for as long as the context lasts."""
    opened = Plane(namespace, node, settings)
    try:
        yield opened
    finally:
        opened.close()
