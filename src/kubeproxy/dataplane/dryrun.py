"""A dataplane that only logs what it would write: for `--dry-run`."""

import asyncio

from kubeproxy.base import klog
from kubeproxy.dataplane.contract import Lost, SyncReport, Update
from kubeproxy.dataplane.mode import Mode
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
            would = [("Would add", entry) for entry in changes.added]
            would += [("Would change", entry) for _, entry in changes.changed]
            for message, entry in would:
                rows = map(" ".join, entry_rows(entry, update.node, self._mode.quirks))
                klog.info(message, v=2, servicePort=str(entry.name), rows=list(rows))
            for entry in changes.removed:
                klog.info("Would remove", v=2, servicePort=str(entry.name))
        return SyncReport()

    async def watch(self, lost: Lost) -> None:  # noqa: ARG002  # nothing to lose
        """Nothing was programmed, so nothing can change."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held open."""
