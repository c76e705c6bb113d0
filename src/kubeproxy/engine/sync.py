"""The sync loop of one IP family: changed services -> compile -> difference -> dataplane.

Nothing is applied before the cluster is known (`open`). A failed sync is retried, and is full
then. A service that cannot be programmed is logged and retried, and does not affect the others.
The two families have a loop each and share nothing but the cluster.
"""

import asyncio
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kubeproxy.base import klog, pace
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import Dataplane, SyncReport, Update
from kubeproxy.engine.flow_cleaner import StaleFlows
from kubeproxy.engine.foreign_changes import ForeignChanges
from kubeproxy.engine.observer import (
    LoopStarted,
    Observer,
    SyncEnded,
    SyncRequested,
    SyncStarted,
    ignore,
)
from kubeproxy.engine.schedule import (
    Outcome,
    Progress,
    Schedule,
    begin,
    finish,
    invalidate,
    is_full_due,
    next_sync,
    request,
)
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import NO_CHANGES, Changes
from kubeproxy.table.entries import Entry, ServicePortName
from kubeproxy.table.node import NodeView

_MOST_WARNINGS = 10
_MOST_SECONDS = 0.002
"""For which other tasks of the event loop wait."""
_IDLE_TURNS = 3
"""Turns of the event loop: in so many, bytes that wait in a socket become events."""


class SyncTarget(NamedTuple):
    """What a sync changes: the family's dataplane, and flows that become stale."""

    dataplane: Dataplane
    flows: StaleFlows | None = None
    notify: Observer = ignore


class FamilySync:
    """Keeps the rules of one family in sync with the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        family: Family,
        target: SyncTarget,
        schedule: Schedule,
        view: Callable[[], NodeView],
    ) -> None:
        self.builder = Builder(family)
        self.progress = Progress()
        self.failure = ""
        """Why the last sync failed; "" when it did not."""
        self.foreign_changes = ForeignChanges(family)
        self._cluster = cluster
        self._dataplane, self._flows, self._notify = target
        self._schedule = schedule
        self._view = view
        self._touched: set[ObjectKey] = set()
        self._failed: dict[ServicePortName, str] = {}
        self._busy_until = 0.0
        self._node: NodeView | None = None
        self._changes = NO_CHANGES
        self._is_open = False
        self._wake = asyncio.Event()

    @property
    def family(self) -> Family:
        """The IP family."""
        return self.builder.table.family

    @property
    def node(self) -> NodeView | None:
        """This node at the last successful sync; None before the first."""
        return self._node

    @property
    def problems(self) -> list[Problem]:
        """The Services that cannot be compiled, and those that exceed a limit."""
        unfit = {
            service: f"what was programmed of it stays: {reason}"
            for service, reason in self.builder.unfit.items()
        }
        found = (*unfit.items(), *self.builder.excess.items())
        return [Problem(Kind.SERVICE, service, reason) for service, reason in found]

    @property
    def failed(self) -> Mapping[ServicePortName, str]:
        """The service ports that could not be programmed, with the reasons."""
        return self._failed

    def open(self) -> None:
        """The cluster is known: syncs may begin."""
        self._is_open = True
        self.request()

    def touch(self, services: Iterable[ObjectKey]) -> None:
        """These services may have changed."""
        self._touched.update(services)
        self.request()

    def request(self) -> None:
        """Something changed: request a sync."""
        self.progress = request(self.progress)
        self._wake_up()

    def invalidate(self, writer: Writer | None) -> None:
        """Another program changed our rules: compare them with the kernel, at once."""
        if not self.progress.urgent:
            self.foreign_changes.add(writer)
        self.progress = invalidate(self.progress)
        self._wake_up()

    def _wake_up(self) -> None:
        if self._is_open:
            self._notify(SyncRequested(self.family, len(self._touched)))
        self._wake.set()

    async def run(self) -> None:
        """Sync whenever it is due, until cancelled."""
        self._notify(LoopStarted(self.family))
        while True:
            await self._wait_due()
            await self._collect()
            await self.sync()

    async def _collect(self) -> None:
        """Let events that wait be handled: one sync for all of them costs less than many.

        Only after another sync, for as long as that one took, and while more of them come.
        """
        clock = asyncio.get_running_loop().time
        idle = 0
        while idle < _IDLE_TURNS and clock() < self._busy_until:
            self._wake.clear()
            await asyncio.sleep(0)
            idle = 0 if self._wake.is_set() else idle + 1

    async def _wait_due(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            due = next_sync(self._schedule, self.progress) if self._is_open else None
            if due is not None and due <= clock():
                return
            try:
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def sync(self) -> None:
        """One sync: compile the touched services, and apply the difference."""
        clock = asyncio.get_running_loop().time
        began = clock()
        full = is_full_due(self._schedule, self.progress, began)
        self.progress = begin(self.progress)
        self._notify(SyncStarted(self.family))
        self.failure = ""
        self._changes = NO_CHANGES
        touched, self._touched = self._touched, set()
        report: SyncReport | None = None
        try:
            report = await self._sync(touched, full=full)
        except KernelError as error:
            self._touched |= touched
            self.failure = str(error)
            klog.error("Sync failed, will try again", err=error, ipFamily=self.family.value)
        except Exception as error:  # noqa: BLE001  # a bug must not end the daemon
            self._touched |= touched
            self.failure = f"{type(error).__name__}: {error}"
            klog.error(
                "Sync failed in an unexpected way, will try again; please report this",
                err=error,
                ipFamily=self.family.value,
                stack=traceback.format_exc(),
            )
        outcome = Outcome.FAILED
        if report is not None:
            outcome = Outcome.PARTLY if report.failed else Outcome.OK
        ended = clock()
        self._busy_until = ended + (ended - began)
        self.progress = finish(self.progress, ended, outcome, full=full)
        self._notify(SyncEnded(self.family, outcome, full, ended - began, self._changes, report))

    async def _sync(self, touched: Collection[ObjectKey], *, full: bool) -> SyncReport:
        node, clock = self._view(), asyncio.get_running_loop().time
        began = clock()
        changes = self._changes = await self._compile(touched, node)
        klog.info(
            "Compiled services",
            v=4,
            ipFamily=self.family.value,
            services=len(touched),
            seconds=round(clock() - began, 6),
        )
        if self._flows is not None:
            self._flows.changing(changes)
        again = self._entries_to_retry(changes)
        report = SyncReport(failed=self._failed)
        if full or changes or again or node != self._node:
            update = Update(self.builder.table, node, changes, full, again)
            began = clock()
            report = await self._dataplane.apply(update)
            self._log_applied(update, report, clock() - began)
        self._node = node
        self._failed = report.failed
        if self._flows is not None:
            self._flows.changed(self.builder.table)
        return report

    async def _compile(self, touched: Collection[ObjectKey], node: NodeView) -> Changes:
        """Compile the services, and log what is newly wrong with them."""
        builder = self.builder
        unfit, excess = dict(builder.unfit), set(builder.excess)
        changes = await pace.run(
            builder.update_in_steps(self._cluster, touched, node), _MOST_SECONDS
        )
        for service, reason in builder.unfit.items():
            if unfit.get(service) != reason:
                message = "Service cannot be compiled, what was programmed of it stays"
                self._log_service(message, service, reason)
        for service, reason in builder.excess.items():
            if service not in excess:
                message = "Service exceeds a limit, some of its ports are not served"
                self._log_service(message, service, reason)
        self._log_conflicts()
        return changes

    def _log_service(self, message: str, service: ObjectKey, reason: str) -> None:
        klog.error(message, err=reason, service=service, ipFamily=self.family.value)

    def _log_applied(self, update: Update, report: SyncReport, seconds: float) -> None:
        for name, reason in report.failed.items():
            if self._failed.get(name) != reason:
                klog.error(
                    "Service port cannot be programmed, will try again",
                    err=reason,
                    servicePort=str(name),
                    ipFamily=self.family.value,
                )
        for name in self._failed.keys() - report.failed.keys():
            klog.info("Service port is programmed again", servicePort=str(name))
        changes = update.changes
        klog.info(
            "Synced",
            v=2,
            ipFamily=self.family.value,
            full=update.full,
            added=len(changes.added),
            changed=len(changes.changed),
            removed=len(changes.removed),
            failed=len(report.failed),
            seconds=round(seconds, 6),
        )

    def _entries_to_retry(self, changes: Changes) -> tuple[Entry, ...]:
        """Entries that failed in the last sync and that this one does not change anyway."""
        if not self._failed:
            return ()
        fresh = {entry.name for entry in changes.added}
        fresh |= {after.name for _, after in changes.changed}
        entries = self.builder.table.entries
        return tuple(
            entries[name] for name in self._failed if name in entries and name not in fresh
        )

    def _log_conflicts(self) -> None:
        """Log the first few: two services can claim hundreds of thousands of addresses."""
        conflicts = self.builder.new_conflicts
        for conflict in conflicts[:_MOST_WARNINGS]:
            klog.warning(
                "Address is claimed by two services; the second is not served there",
                address=str(conflict.key),
                servedBy=str(conflict.winner),
                notServed=str(conflict.loser),
            )
        if len(conflicts) > _MOST_WARNINGS:
            klog.warning(
                "Further addresses are claimed by two services; `kube-proxy services` shows them",
                count=len(conflicts) - _MOST_WARNINGS,
            )
