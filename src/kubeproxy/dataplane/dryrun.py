"""A dataplane that only logs what it would write: for `--dry-run`."""

import asyncio
from collections.abc import Callable

from kubeproxy.base import klog
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.mode import Mode
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import Node
from kubeproxy.table.rows import entry_rows


class DryRun:
    """One family. The log has the number of changes at -v=0, and each of them at -v=2."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    async def apply(self, update: Update) -> SyncReport:
        """Log what would be programmed."""
        changes = update.changes
        klog.info(
            "Dry run, nothing is written to the kernel",
            ipFamily=update.table.family.value,
            servicePorts=len(update.table.entries),
            added=len(changes.added),
            changed=len(changes.changed),
            removed=len(changes.removed),
        )
        if klog.enabled(2):
            for entry in changes.added:
                self._log("Would add", entry, update.node)
            for _, entry in changes.changed:
                self._log("Would change", entry, update.node)
            for entry in changes.removed:
                klog.info("Would remove", v=2, servicePort=str(entry.name))
        return SyncReport()

    async def watch(self, lost: Callable[[], None]) -> None:  # noqa: ARG002  # nothing to lose
        """Nothing was programmed, so nothing can change."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held open."""

    def _log(self, message: str, entry: Entry, node: Node) -> None:
        rows = [" ".join(row) for row in entry_rows(entry, node, self._mode.quirks)]
        klog.info(message, v=2, servicePort=str(entry.name), rows=rows)
