"""Deletes UDP flows that a sync made stale, in the background."""

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
    """The flows of one family. Work is kept until it succeeded.

    It is due when the changes that cause it are in the kernel, and not before.
    """

    def __init__(self, family: Family, notify: Observer = ignore) -> None:
        self._family = family
        self._notify = notify
        self._due_later = AT_START
        self._due = NONE_DUE
        self._entries: tuple[Entry, ...] = ()
        self._wake = asyncio.Event()

    def changing(self, changes: Changes) -> None:
        """These changes are about to be committed."""
        self._due_later = due_after(self._due_later, changes)

    def changed(self, table: Table) -> None:
        """They are committed: flows that do not fit the table are stale from now on."""
        if self._due_later:
            self._due, self._due_later = combined(self._due, self._due_later), NONE_DUE
            self._entries = udp_entries(table)
            self._wake.set()

    async def run(self) -> None:
        """Delete stale flows whenever there may be some, until cancelled."""
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
    """Delete the flows that do not fit the entries; returns how many."""
    return delete(stale(udp_flows(family), entries, former))
