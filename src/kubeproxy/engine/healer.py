"""Follows what endpoints fail, and has those that fail often left out for a while."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.dataplane.contract import Heals
from kubeproxy.dataplane.failures import Failure
from kubeproxy.engine.ejection import Ejection, Ejector, Limits
from kubeproxy.engine.observer import (
    ConnectionsFailed,
    EjectionWithheld,
    EndpointEjected,
    EndpointTriedAgain,
    Observer,
    ignore,
)
from kubeproxy.table.build import Builder
from kubeproxy.table.entries import Entry, FrontendKey, ServicePortName, Table

FORGET_SECONDS = 60.0


class Healer:
    """The endpoints of one family that are left out. `touch` has services compiled again."""

    def __init__(
        self,
        dataplane: Heals,
        builder: Builder,
        limits: Limits,
        touch: Callable[[Iterable[ObjectKey]], None],
        notify: Observer = ignore,
    ) -> None:
        self._dataplane, self._builder = dataplane, builder
        self._touch, self._notify = touch, notify
        self._ejector = Ejector(limits)
        self._out: dict[ServicePortName, list[Ejection]] = {}
        self._changed = asyncio.Event()

    @property
    def family(self) -> Family:
        """The IP family."""
        return self._builder.table.family

    def ejections(self, name: ServicePortName) -> Sequence[Ejection]:
        """The endpoints of a service port that are left out; times are those of the event loop."""
        return self._out.get(name, ())

    def count(self) -> dict[ServicePortName, int]:
        """How many endpoints of each service port are left out."""
        return {name: len(found) for name, found in self._out.items()}

    async def run(self) -> None:
        """Leave endpoints out, and try them again, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dataplane.failures(self._failed))
            tasks.create_task(self._try_again())

    def _failed(self, failures: Sequence[Failure]) -> None:
        """Connections failed."""
        now = asyncio.get_running_loop().time()
        table = self._builder.table
        found = [
            (each, entry) for each in failures if (entry := entry_of(table, each.destination))
        ]
        self._notify(ConnectionsFailed(self.family, tuple((e.name, f) for f, e in found)))
        ejected, full = self._ejector.observe(found, now)
        for each in ejected:
            self._notify(EndpointEjected(self.family, each, each.until - now))
            klog.warning(
                "Endpoint fails and is left out for a while",
                servicePort=str(each.name),
                endpoint=f"{each.endpoint.address}:{each.endpoint.port}",
                reason=each.reason.value,
                failures=each.failures,
                clients=each.clients,
                seconds=round(each.until - now),
                ipFamily=self.family.value,
            )
        for name in dict.fromkeys(full):
            self._notify(EjectionWithheld(self.family, name))
            klog.info(
                "Endpoint fails but is not left out, because too many are",
                servicePort=str(name),
                ipFamily=self.family.value,
            )
        self._apply(now, {each.name for each in ejected})

    def _apply(self, now: float, names: Iterable[ServicePortName]) -> None:
        """Have services compiled again whose endpoints are left out, or are not any more."""
        changed: dict[ObjectKey, None] = {}
        for name in names:
            for each in self._out.get(name, ()):
                if each.until <= now:
                    self._notify(EndpointTriedAgain(self.family, each))
            found = self._ejector.of(name, now)
            if found:
                self._out[name] = found
            else:
                self._out.pop(name, None)
            changed[ObjectKey(name.namespace, name.service)] = None
        for service in changed:
            out = frozenset(
                each.endpoint
                for name, found in self._out.items()
                if (name.namespace, name.service) == (service.namespace, service.name)
                for each in found
            )
            if out:
                self._builder.ejected[service] = out
            else:
                self._builder.ejected.pop(service, None)
        if changed:
            self._touch(changed)
            self._changed.set()

    async def _try_again(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            now = clock()
            # Of those that are out by what was last applied: one may have ended since.
            due = min((each.until for out in self._out.values() for each in out), default=None)
            try:
                async with asyncio.timeout_at(now + FORGET_SECONDS if due is None else due):
                    await self._changed.wait()
            except TimeoutError:
                now = clock()
                out = [each for found in self._out.values() for each in found]
                self._apply(now, {each.name for each in out if each.until <= now})
                self._ejector.forget(self._builder.table.entries, now)


def entry_of(table: Table, destination: FrontendKey) -> Entry | None:
    """The entry that was dialled: by its own address, or by a node port."""
    entry = table.find(destination)
    return entry if entry is not None else table.find(destination._replace(address=""))
