"""A dataplane that keeps what is applied, as a kernel would, and can refuse it."""

import asyncio

from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.contract import Lost, SyncReport, Update
from kubeproxy.table.entries import Entry, ServicePortName


class FakeDataplane:
    """One family's kernel. `entries` is what it holds; `updates` is all that was asked of it.

    A partial update changes only what it names; a full one replaces everything. `fail` makes that
    many updates fail altogether, half done; the services in `refuse` cannot be programmed.
    `mistakes` are raised, one in each update.
    """

    def __init__(self) -> None:
        self.entries: dict[ServicePortName, Entry] = {}
        self.updates: list[Update] = []
        self.fail = 0
        self.mistakes: list[Exception] = []
        self.refuse: set[str] = set()
        self.lost: Lost | None = None
        self.closed = False

    async def apply(self, update: Update) -> SyncReport:
        self.updates.append(update)
        if update.full:
            self.entries.clear()
        if self.mistakes:
            raise self.mistakes.pop(0)
        if self.fail:
            self.fail -= 1
            raise KernelError("no buffer space")
        wanted = [*update.changes.added, *update.again]
        wanted += [after for _, after in update.changes.changed]
        if update.full:
            wanted = list(update.table.entries.values())
        for entry in update.changes.removed:
            self.entries.pop(entry.name, None)
        refused = {}
        for entry in wanted:
            if entry.name.service in self.refuse:
                refused[entry.name] = "the kernel does not want it"
            else:
                self.entries[entry.name] = entry
        return SyncReport(refused, len(wanted))

    async def watch(self, lost: Lost) -> None:
        """Others change this kernel by calling `lost`."""
        self.lost = lost
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True
