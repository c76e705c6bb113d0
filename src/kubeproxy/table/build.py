"""Keeps a table up to date: compiles the services that changed, and gives the difference.

It works in steps. Events may change the cluster in between: what they touch is left to the next
update. Between steps, readers see each service as it was before or as it is after.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.base.printable import quoted
from kubeproxy.base.steps import ENTRY, PART, Steps, finish
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.table.claims import Claims, Conflict, claims_of
from kubeproxy.table.compile import NONE_EJECTED, Compiled, Ejected, compile_service
from kubeproxy.table.diff import Changes, ListChanges, patch_in_steps
from kubeproxy.table.entries import Entry, HealthCheck, ServiceName, ServicePortName, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.recompile import LARGE, Known, recompile, remember


class _Wanted(NamedTuple):
    """The entries that a Service asks for, by name, and when the Service was created."""

    created: str
    entries: Mapping[ServicePortName, Entry]


_NOTHING = _Wanted("", {})


def _wanted(ports: Sequence[ServicePort], entries: Iterable[Entry]) -> _Wanted:
    created = ports[0].created if ports else ""
    return _Wanted(created, {entry.name: entry for entry in entries})


class Builder:
    """The table of one family, and what is needed to change it a service at a time."""

    def __init__(self, family: Family, large: int = LARGE) -> None:
        self.table = Table(family)
        self.new_conflicts: list[Conflict] = []
        """Conflicts that the last update caused."""
        self.unfit: dict[ObjectKey, str] = {}
        """Services that could not be compiled, and why: their entries stay as they were."""
        self.excess: dict[ObjectKey, str] = {}
        """Services that exceed a limit, and which of their ports are served."""
        self.ejected: dict[ObjectKey, Ejected] = {}
        """Endpoints that are left out because they fail; who changes it touches the service."""
        self._compiled_for: tuple[object, ...] = ()
        self._large = large
        self._known: dict[ObjectKey, Known] = {}
        self._services: dict[ObjectKey, _Wanted] = {}
        self._wanted: dict[ServicePortName, Entry] = {}
        self._claims = Claims()

    def update(self, cluster: Cluster, touched: Iterable[ObjectKey], node: NodeView) -> Changes:
        """Compile the touched services, and change the table.

        All services are compiled when what they depend on of this node is new.
        """
        return finish(self.update_in_steps(cluster, touched, node))

    def update_in_steps(
        self, cluster: Cluster, touched: Iterable[ObjectKey], node: NodeView
    ) -> Steps[Changes]:
        """The same, with a pause after each step."""
        family = self.table.family
        compiled_for = (node.name, node.zone, node.ip, node.balance, node.healing)
        if compiled_for != self._compiled_for:
            touched = dict.fromkeys((*self._services, *cluster.services(family)))
            self._known.clear()
        self.new_conflicts = []
        affected: dict[ServicePortName, None] = {}
        checks: dict[ServiceName, HealthCheck | None] = {}
        lists: dict[ServicePortName, ListChanges] = {}
        remembered: dict[ObjectKey, Known] = {}
        for service in touched:
            ports = cluster.service_ports(family, service)
            slices = cluster.slices(family, service)
            try:
                compiled = yield from self._compile(service, ports, slices, node, remembered)
            except Exception as error:  # noqa: BLE001  # one Service must not stop all others
                self.unfit[service] = f"{type(error).__name__}: {quoted(str(error))}"
                continue
            self.unfit.pop(service, None)
            _keep(self.excess, service, compiled.excess)
            lists.update(compiled.lists)
            yield from self._want(service, _wanted(ports, compiled.entries), affected)
            yield
            name = ServiceName(service.namespace, service.name)
            if self.table.health_checks.get(name) != compiled.health_check:
                checks[name] = compiled.health_check
        changes = yield from self._changes(affected, checks)
        changes = msgspec.structs.replace(changes, lists=lists) if lists else changes
        yield from patch_in_steps(self.table, changes)
        self._known.update(remembered)  # now that the table has what was compiled
        self._compiled_for = compiled_for
        return changes

    def _compile(
        self,
        service: ObjectKey,
        ports: tuple[ServicePort, ...],
        slices: Mapping[str, Slice],
        node: NodeView,
        remembered: dict[ObjectKey, Known],
    ) -> Steps[Compiled]:
        """Compile a service: of a large one that was compiled before, what changed."""
        known = self._known.pop(service, None)
        ejected = self.ejected.get(service, NONE_EJECTED)
        compiled = recompile(known, ports, slices, node) if known and not ejected else None
        if compiled is None:
            known = None
            taken = dict(slices)  # as they are before the first step
            compiled = yield from compile_service(service, ports, taken, node, ejected)
            large = [entry for entry in compiled.entries if entry.endpoints >= self._large]
            if large and not ejected:
                known = yield from remember(ports, taken, node, compiled)
        if known is not None:
            remembered[service] = known
        return compiled

    def services(self) -> Collection[ObjectKey]:
        """The services that have entries."""
        return self._services.keys()

    def entries_of(self, service: ObjectKey) -> list[Entry]:
        """The entries of a service's ports that the table has."""
        wanted, entries = self._services.get(service, _NOTHING), self.table.entries
        return [entries[name] for name in wanted.entries if name in entries]

    def conflicts(self) -> list[Conflict]:
        """All claims that lost against another service port."""
        return list(self._claims.conflicts())

    def count_conflicts(self) -> int:
        """How many there are."""
        return self._claims.count_conflicts()

    def _want(
        self, service: ObjectKey, after: _Wanted, affected: dict[ServicePortName, None]
    ) -> Steps[None]:
        """Replace what a service asks for; note which entries that may change."""
        before = self._services.get(service, _NOTHING)
        work = 0
        for name in dict.fromkeys((*before.entries, *after.entries)):
            affected[name] = None
            work += yield from self._replace_claims(name, before, after, affected)
            if work >= PART:
                work = 0
                yield
        for name in before.entries:
            del self._wanted[name]
        if after.entries:
            self._services[service] = after
            self._wanted.update(after.entries)
        else:
            self._services.pop(service, None)

    def _replace_claims(
        self,
        name: ServicePortName,
        before: _Wanted,
        after: _Wanted,
        affected: dict[ServicePortName, None],
    ) -> Steps[int]:
        """Claim the destinations that a service port asks for now, and release all others.

        Returns how much work that was.
        """
        old, new = before.entries.get(name), after.entries.get(name)
        if old and new and old.frontends == new.frontends and before.created == after.created:
            return ENTRY + len(new.frontends)  # the usual case: only its endpoints changed
        of_old = (yield from claims_of(old, before.created)) if old else {}
        of_new = (yield from claims_of(new, after.created)) if new else {}
        for result in self._claims.replace(of_old, of_new):
            if result is None:
                yield
            elif isinstance(result, Conflict):
                self.new_conflicts.append(result)
            else:
                affected[result] = None
        return ENTRY + len(of_old) + len(of_new)

    def _changes(
        self,
        affected: Iterable[ServicePortName],
        checks: dict[ServiceName, HealthCheck | None],
    ) -> Steps[Changes]:
        added: list[Entry] = []
        changed: list[tuple[Entry, Entry]] = []
        removed: list[Entry] = []
        work = 0
        for name in affected:
            wanted = self._wanted.get(name)
            before = self.table.entries.get(name)
            after = None if wanted is None else (yield from self._claims.granted(wanted))
            if before is None and after is not None:
                added.append(after)
            elif before is not None and after is None:
                removed.append(before)
            elif before is not None and after is not None and before != after:
                changed.append((before, after))
            work += ENTRY if after is None else ENTRY + len(after.frontends)
            if work >= PART:
                work = 0
                yield
        return Changes(tuple(added), tuple(changed), tuple(removed), checks)


def _keep(reasons: dict[ObjectKey, str], service: ObjectKey, reason: str) -> None:
    """Note the reason of a service, or that there is none."""
    if reason:
        reasons[service] = reason
    else:
        reasons.pop(service, None)
