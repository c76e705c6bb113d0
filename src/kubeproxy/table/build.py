"""Keeps a table true: compiles the services that were touched, and says what that changed.

Two service ports can claim one destination (external IPs are free text). Upstream leaves open who
gets it; here a cluster IP wins over a load balancer's address and that over an external IP, then
the first by name, whatever the order of events. The others get it when the winner lets go.
"""

from collections.abc import Collection, Iterable

import msgspec

from kubeproxy.inet import Family
from kubeproxy.model.cluster import Cluster
from kubeproxy.objects.meta import ObjectKey
from kubeproxy.table.compile import Vantage, compile_service
from kubeproxy.table.diff import Changes, patch
from kubeproxy.table.entries import (
    PRECEDENCE,
    Entry,
    FrontendKey,
    HealthCheck,
    ServiceName,
    ServicePortName,
    Table,
)


class Conflict(msgspec.Struct, frozen=True):
    """A destination that a service port claims and does not get."""

    key: FrontendKey
    loser: ServicePortName
    winner: ServicePortName


class Builder:
    """The table of one family, and what is needed to change it a service at a time."""

    def __init__(self, family: Family) -> None:
        self.table = Table(family)
        self._vantage: Vantage | None = None
        self._ports: dict[ObjectKey, tuple[ServicePortName, ...]] = {}
        self._wanted: dict[ServicePortName, Entry] = {}
        self._claims: dict[FrontendKey, tuple[ServicePortName, ...]] = {}
        self._contested: set[FrontendKey] = set()

    def update(self, cluster: Cluster, touched: Iterable[ObjectKey], vantage: Vantage) -> Changes:
        """Compile the touched services, or all when the vantage is new, and change the table."""
        family = self.table.family
        if vantage != self._vantage:
            self._vantage = vantage
            touched = dict.fromkeys((*self._ports, *cluster.services(family)))
        affected: dict[ServicePortName, None] = {}
        checks: dict[ServiceName, HealthCheck | None] = {}
        for service in touched:
            ports = cluster.service_ports(family, service)
            compiled = compile_service(service, ports, cluster.slices(family, service), vantage)
            self._want(service, compiled.entries, affected)
            name = ServiceName(service.namespace, service.name)
            if self.table.health_checks.get(name) != compiled.health_check:
                checks[name] = compiled.health_check
        changes = self._changes(affected, checks)
        patch(self.table, changes)
        return changes

    def services(self) -> Collection[ObjectKey]:
        """The services that have entries."""
        return self._ports.keys()

    def entries_of(self, service: ObjectKey) -> list[Entry]:
        """The entries of a service's ports."""
        return [self.table.entries[name] for name in self._ports.get(service, ())]

    def conflicts(self) -> list[Conflict]:
        """Who claims what somebody else has."""
        return [
            Conflict(key, name, self._winner(key))
            for key in sorted(self._contested)
            for name in sorted(self._claims[key])
            if name != self._winner(key)
        ]

    def _want(
        self,
        service: ObjectKey,
        entries: tuple[Entry, ...],
        affected: dict[ServicePortName, None],
    ) -> None:
        """Replace what a service claims; note whose entries that may change."""
        for name in self._ports.pop(service, ()):
            affected[name] = None
            for key in dict.fromkeys(self._wanted.pop(name).keys()):
                self._set_claims(key, tuple(n for n in self._claims[key] if n != name), affected)
        for entry in entries:
            name = entry.name
            affected[name] = None
            self._wanted[name] = entry
            for key in dict.fromkeys(entry.keys()):
                self._set_claims(key, (*self._claims.get(key, ()), name), affected)
        if entries:
            self._ports[service] = tuple(entry.name for entry in entries)

    def _set_claims(
        self,
        key: FrontendKey,
        names: tuple[ServicePortName, ...],
        affected: dict[ServicePortName, None],
    ) -> None:
        if names:
            self._claims[key] = names
        else:
            del self._claims[key]
        if len(names) > 1:
            self._contested.add(key)
            affected.update(dict.fromkeys(names))
        elif key in self._contested:
            self._contested.discard(key)
            affected.update(dict.fromkeys(names))

    def _winner(self, key: FrontendKey) -> ServicePortName:
        def rank(name: ServicePortName) -> tuple[int, ServicePortName]:
            frontend = self._wanted[name].find(key)
            return (PRECEDENCE[frontend.kind] if frontend else len(PRECEDENCE), name)

        return min(self._claims[key], key=rank)

    def _granted(self, name: ServicePortName) -> Entry | None:
        """The entry with the frontends that it gets; None when the service port is gone."""
        entry = self._wanted.get(name)
        if entry is None or not self._contested or self._contested.isdisjoint(entry.keys()):
            return entry
        granted = tuple(
            frontend for frontend in entry.frontends if self._winner(entry.key(frontend)) == name
        )
        return msgspec.structs.replace(entry, frontends=granted)

    def _changes(
        self,
        affected: Iterable[ServicePortName],
        checks: dict[ServiceName, HealthCheck | None],
    ) -> Changes:
        added: list[Entry] = []
        changed: list[tuple[Entry, Entry]] = []
        removed: list[Entry] = []
        for name in affected:
            before, after = self.table.entries.get(name), self._granted(name)
            if before is None and after is not None:
                added.append(after)
            elif before is not None and after is None:
                removed.append(before)
            elif before is not None and after is not None and before != after:
                changed.append((before, after))
        return Changes(tuple(added), tuple(changed), tuple(removed), checks)
