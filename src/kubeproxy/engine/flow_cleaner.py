"""Stale UDP flows: forgotten after a sync that made some; beside the syncs, never in them."""

import asyncio
from collections.abc import Iterable

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.engine.flows import AT_START, NONE_DUE, combined, due_after, stale, udp_entries
from kubeproxy.engine.observer import FlowsCleaned, Observer, ignore
from kubeproxy.linux.conntrack import delete, udp_flows
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry, Table

RETRY_SECONDS = 5.0


class StaleFlows:
    """The flows of one family. What is owed is kept until it is done.

    It is due when the changes that it is owed for are in the kernel, and not before.
    """

    def __init__(self, family: Family, notify: Observer = ignore) -> None:
        self._family = family
        self._notify = notify
        self._debt = AT_START
        self._due = NONE_DUE
        self._entries: tuple[Entry, ...] = ()
        self._wake = asyncio.Event()

    def owe(self, changes: Changes) -> None:
        """These changes are on their way into the kernel."""
        self._debt = due_after(self._debt, changes)

    def settle(self, table: Table) -> None:
        """They are in the kernel: from now on flows that do not fit the table are stale."""
        if self._debt:
            self._due, self._debt = combined(self._due, self._debt), NONE_DUE
            self._entries = udp_entries(table)
            self._wake.set()

    async def run(self) -> None:
        """Clean up whenever something is due, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, NONE_DUE
            began = clock()
            try:
                gone = await asyncio.to_thread(clean, self._family, self._entries, due.former)
            except KernelError as error:
                klog.error("Stale UDP flows cannot be deleted, will try again", err=error)
                self._due = combined(due, self._due)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()
            else:
                klog.info("Deleted stale UDP flows", v=2, ipFamily=self._family.value, flows=gone)
                self._notify(FlowsCleaned(self._family, clock() - began, gone))


def clean(family: Family, entries: Iterable[Entry], former: Iterable[Entry]) -> int:
    """Delete the flows that do not fit the entries; how many there were."""
    return delete(stale(udp_flows(family), entries, former))
