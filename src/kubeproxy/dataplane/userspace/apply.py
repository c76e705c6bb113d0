"""Makes the workers and the rules those of the update."""

import asyncio
import errno
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError, reason_of
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import ConnectionCounts, Count, Lost, SyncReport, Update
from kubeproxy.dataplane.userspace.listeners import SERVED, Listener, Place
from kubeproxy.dataplane.userspace.orders import Order, Report, Settings
from kubeproxy.dataplane.userspace.reach import Reach
from kubeproxy.dataplane.userspace.settings import UserspaceSettings
from kubeproxy.dataplane.userspace.sockets import Group, Ports, keep_clients, open_sockets
from kubeproxy.dataplane.userspace.state import Change, Numbers, Opened, Part
from kubeproxy.dataplane.userspace.workers import Pool, Sockets, Worker
from kubeproxy.table.entries import Entry, ServicePortName
from kubeproxy.table.node import NodeView


class Userspace:
    """One family of userspace mode."""

    def __init__(self, family: Family, settings: UserspaceSettings, reach: Reach) -> None:
        self._family = family
        self._reach = reach
        self._settings = settings
        self._pool = Pool(
            Settings(settings.udp_idle_seconds, klog.settings().verbosity), settings.workers
        )
        self._ports = Ports(settings.first_port, settings.last_port)
        self._numbers = Numbers()
        self._parts: dict[ServicePortName, Part] = {}
        self._after: list[Order] = []  # also of syncs that failed
        self._node: NodeView | None = None
        self._turn = asyncio.Lock()

    async def apply(self, update: Update) -> SyncReport:
        """Make everything as the update says; in a thread, because programs take their time."""
        async with self._turn:
            return await asyncio.to_thread(self._sync, update)

    async def watch(self, lost: Lost) -> None:
        """Call `lost` when a worker has ended or others change the rules, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pool.watch(lost), name="workers")
            tasks.create_task(self._reach.watch(self._turn, lost), name="rules")

    async def close(self) -> None:
        """End the workers, and with them all connections. The rules stay."""
        await asyncio.to_thread(self._pool.close)

    def connections(self) -> ConnectionCounts:
        """What workers have counted; for threads."""
        reports = {worker.pid: worker.counted() for worker in self._pool.workers}
        return ConnectionCounts(0, _counts(tuple(self._parts.values()), reports))

    def _sync(self, update: Update) -> SyncReport:
        for worker in self._pool.replace_ended():
            self._tell_all(worker)
        full = update.full or update.node != self._node
        self._node = None  # not known any more, should anything fail
        change, sockets, failed = Change(), Sockets(), dict[ServicePortName, str]()
        for entry in _touched(update, full=full):
            try:
                part = self._part(entry, update.node, sockets)
            except OSError as error:
                failed[entry.name] = f"cannot listen: {reason_of(error)}"
                continue
            change.replace(self._parts.get(entry.name), part)
            self._parts[entry.name] = part
        gone = self._parts.keys() - update.table.entries.keys() if full else _gone(update)
        for name in gone:
            change.replace(self._parts.pop(name, None), None)
        self._after += change.after
        self._pool.tell(change.before, sockets)
        if full:
            elements = chain.from_iterable(each.elements for each in self._parts.values())
            self._reach.replace(update.node, elements)
        else:
            self._reach.change(change.gone, change.come)
        self._pool.tell(self._after, Sockets())
        self._after.clear()
        self._node = update.node
        return SyncReport(failed, change.size)

    def _part(self, entry: Entry, node: NodeView, sockets: Sockets) -> Part:
        """What a service port has from now on; what it has already stays open."""
        before = self._parts.get(entry.name)
        if before is None:
            before = Part(entry, self._numbers.new())
            if entry.protocol not in SERVED:
                klog.warning("userspace mode serves TCP and UDP only", servicePort=entry.name)
        places = self._reach.listeners(entry, node)
        keys = dict.fromkeys(listener.list_key for listener in places)
        lists = {key: before.lists.get(key) or self._numbers.new() for key in keys}
        listeners: dict[Listener, Opened] = {}
        opened = Sockets()
        try:
            for listener, place in places.items():
                known = before.listeners.get(listener)
                listeners[listener] = known or self._open(listener, place, opened)
        except OSError:
            opened.close()
            raise
        sockets.update(opened)

        def port(listener: Listener) -> int:
            return listeners[listener].place.port

        elements = self._reach.elements(entry, node, port)
        return Part(entry, before.service, listeners, lists, elements)

    def _open(self, listener: Listener, place: Place, sockets: Sockets) -> Opened:
        count = self._settings.workers
        opened = self._open_at(listener, place, count)
        if listener.keeps_clients and count > 1:
            keep_clients(opened[0], self._family, count)
        number = self._numbers.new()
        sockets[number] = opened
        return Opened(number, Place(place.address, opened[0].getsockname()[1]))

    def _open_at(self, listener: Listener, place: Place, count: int) -> Group:
        """Sockets at the place, or where it has no port, at one of those that are allowed."""
        protocol = listener.name.protocol
        if place.port:
            return open_sockets(self._family, protocol, place, count)
        for port in self._ports.candidates():
            try:
                return open_sockets(self._family, protocol, Place(place.address, port), count)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, "all ports of portRange are in use: widen it")

    def _tell_all(self, worker: Worker) -> None:
        """Tell a new worker all that its predecessor knew."""
        sockets = Sockets()
        try:
            for part in self._parts.values():
                for listener, opened in part.listeners.items():
                    protocol = listener.name.protocol
                    again = open_sockets(self._family, protocol, opened.place, 1)
                    sockets[opened.number] = again
            worker.carry_out(_all_orders(self._parts.values()), sockets.descriptors(0))
        except OSError as error:
            worker.close()  # the next sync starts another one
            raise KernelError(f"cannot listen in place of a worker: {error}") from error
        finally:
            sockets.close()


def _touched(update: Update, *, full: bool) -> Iterable[Entry]:
    """The entries that may need something else."""
    if full:
        return update.table.entries.values()
    changes = update.changes
    return (*changes.added, *(entry for _, entry in changes.changed), *update.again)


def _gone(update: Update) -> list[ServicePortName]:
    return [entry.name for entry in update.changes.removed]


def _all_orders(parts: Iterable[Part]) -> list[Order]:
    """What a worker has to know of service ports."""
    change = Change()
    for part in parts:
        change.replace(None, part)
    return change.before


def _counts(
    parts: Iterable[Part], reports: Mapping[int, Report]
) -> Iterator[tuple[ServicePortName, list[Count]]]:
    """What each frontend had, by worker; a frontend may have two listeners."""
    for part in parts:
        counts = [
            Count(listener.frontend, (pid, opened.number), report.listeners.get(opened.number))
            for listener, opened in part.listeners.items()
            for pid, report in reports.items()
        ]
        yield part.entry.name, counts
