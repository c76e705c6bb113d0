"""A large Service, few of whose endpoints changed -> its entries, without visiting the others.

This does the usual case only: slices that all have the same ports, no endpoint in two of them, and
the same kind of endpoints chosen as before. In any other case there is no result, and the Service
is compiled as a whole.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import Steps
from kubeproxy.cluster.model.endpoint import Endpoint, Slice, SlicePort
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.model.topology import Selection, Tally, select, tally, users
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.table.compile import Compiled
from kubeproxy.table.diff import NO_MEMBERS, ListChanges, Members
from kubeproxy.table.entries import Backend, Entry, HealthCheck, ServicePortName
from kubeproxy.table.node import NodeView

LARGE = 100
"""Endpoints of a Service for which it is worth remembering what was compiled."""

FEW = 8
"""Of so many endpoints one may change: else compiling all of them costs as much."""

_MOST_PORTS = 100
_NONE = Slice(ObjectKey("", ""), Family.IPV4)


class Known(msgspec.Struct):
    """What was compiled of a large Service, and from what.

    `addresses` are those of all endpoints. `numbers` are the ports on which these serve the ports
    of the Service; None for one that no slice has.
    """

    ports: tuple[ServicePort, ...]
    slices: dict[str, Slice]
    slice_ports: tuple[SlicePort, ...]
    numbers: tuple[int | None, ...]
    addresses: set[str]
    counts: Tally
    compiled: Compiled


class _Difference(msgspec.Struct, frozen=True):
    """The endpoints that left and those that came; one whose condition changed did both.

    `more` is how many more places slices have for endpoints.
    """

    left: tuple[Endpoint, ...] = ()
    came: tuple[Endpoint, ...] = ()
    more: int = 0


def remember(
    ports: tuple[ServicePort, ...],
    slices: Mapping[str, Slice],
    node: NodeView,
    compiled: Compiled,
) -> Steps[Known | None]:
    """What is needed to compile the Service again by its changes; None when that cannot be."""
    used = [each for each in slices.values() if each.endpoints]
    count = sum(len(each.endpoints) for each in used)
    if not used or len(ports) > _MOST_PORTS or compiled.excess:
        return None
    slice_ports = used[0].ports
    numbers = {(each.name, each.protocol): each.port for each in slice_ports}
    if len(numbers) < len(slice_ports) or any(each.ports != slice_ports for each in used):
        return None
    addresses: set[str] = set()
    counts = Tally()
    for each in used:
        yield
        addresses.update([endpoint.address for endpoint in each.endpoints])
        counts = counts.changed(Tally(), tally(each.endpoints, node.name, node.zone))
    if len(addresses) < count:
        return None
    return Known(
        ports,
        dict(slices),
        slice_ports,
        tuple(numbers.get((port.name, port.protocol)) for port in ports),
        addresses,
        counts,
        compiled,
    )


def recompile(
    known: Known, ports: tuple[ServicePort, ...], slices: Mapping[str, Slice], node: NodeView
) -> Compiled | None:
    """The Service as its slices are now, for the same node; None when this is no usual case.

    `known` is brought up to date; it is of no use any more when there is no result.
    """
    if ports is not known.ports:
        return None
    difference = _difference(known, slices)
    if difference is None or not _replace_addresses(known, difference):
        return None
    left, came = (
        tally(endpoints, node.name, node.zone) for endpoints in (difference.left, difference.came)
    )
    counts = known.counts.changed(left, came)
    entries: list[Entry] = []
    lists: dict[ServicePortName, ListChanges] = {}
    for port, number, entry in zip(ports, known.numbers, known.compiled.entries, strict=True):
        if number is None:
            entries.append(entry)
            continue
        selection = select(port, counts)
        if selection != select(port, known.counts):
            return None
        made = _Lists(difference, number).entry(entry, selection, node, len(known.addresses))
        entries.append(made[0])
        lists[entry.name] = made[1]
    check = known.compiled.health_check
    if check is not None and any(known.numbers):
        check = HealthCheck(check.port, counts.ready_here)
    known.slices, known.counts = dict(slices), counts
    known.compiled = Compiled(tuple(entries), check, lists=lists)
    return known.compiled


def _difference(known: Known, slices: Mapping[str, Slice]) -> _Difference | None:
    """Which endpoints are others; None when slices differ in more than that, or in much."""
    before = known.slices
    changed = [name for name, slice_ in slices.items() if before.get(name) is not slice_]
    left: list[Endpoint] = []
    came: list[Endpoint] = []
    more = 0
    for name in (*changed, *(before.keys() - slices.keys())):
        then, now = before.get(name, _NONE).endpoints, slices.get(name, _NONE).endpoints
        if now and slices[name].ports != known.slice_ports:
            return None
        only_then, only_now = _exchanged(then, now)
        left += only_then
        came += only_now
        more += len(now) - len(then)
    if FEW * max(len(left), len(came)) > len(known.addresses):
        return None
    return _Difference(tuple(left), tuple(came), more)


def _exchanged(
    then: Sequence[Endpoint], now: Sequence[Endpoint]
) -> tuple[list[Endpoint], list[Endpoint]]:
    """The endpoints that only one of two versions of a slice has. Most are in the same place."""
    moved = [pair for pair in zip_longest(then, now) if pair[0] != pair[1]]
    were = {each.address: each for each, _ in moved if each}
    are = {each.address: each for _, each in moved if each}
    left = [each for each in were.values() if are.get(each.address) != each]
    came = [each for each in are.values() if were.get(each.address) != each]
    return left, came


def _replace_addresses(known: Known, difference: _Difference) -> bool:
    """Note which addresses there are; whether each is still that of one endpoint."""
    count = len(known.addresses) + difference.more
    known.addresses.difference_update([each.address for each in difference.left])
    known.addresses.update([each.address for each in difference.came])
    return len(known.addresses) == count > 0


class _Lists:
    """The lists of one port, of which some endpoints left and others came."""

    def __init__(self, difference: _Difference, number: int) -> None:
        self._left, self._came = (
            [(each, Backend(each.address, number, each.local)) for each in endpoints]
            for endpoints in (difference.left, difference.came)
        )

    def entry(
        self, entry: Entry, selection: Selection, node: NodeView, endpoints: int
    ) -> tuple[Entry, ListChanges]:
        """The entry as it is now, with so many endpoints, and how its main lists changed."""
        cluster = local = NO_MEMBERS
        if selection.cluster is not None:
            uses = users(selection.cluster, selection.hints, node.name, node.zone)
            cluster = self._members(uses)
        if selection.local is not None:
            serves = users(selection.local)
            local = self._members(lambda each: each.local and serves(each))
        changed = msgspec.structs.replace(
            entry,
            cluster=replaced(entry.cluster, cluster),
            local=replaced(entry.local, local),
            endpoints=endpoints,
            here=replaced(entry.here, self._members(attrgetter("local"))),
        )
        if entry.protocol is Protocol.UDP:
            serving = replaced(entry.serving, self._members(attrgetter("serving")))
            changed = msgspec.structs.replace(changed, serving=serving)
        if entry.healing & Healing.RESET_GONE:
            gone = self._members(attrgetter("pod"))
            same = entry.pods is entry.cluster and gone == cluster
            pods = changed.cluster if same else replaced(entry.pods, gone)
            changed = msgspec.structs.replace(changed, pods=pods)
        return changed, ListChanges(cluster, local)

    def _members(self, belongs: Callable[[Endpoint], bool]) -> Members:
        """Which backends leave a list of endpoints, and which come."""
        left = frozenset([backend for endpoint, backend in self._left if belongs(endpoint)])
        came = frozenset([backend for endpoint, backend in self._came if belongs(endpoint)])
        return Members(left - came, came - left)


def replaced(backends: tuple[Backend, ...], change: Members) -> tuple[Backend, ...]:
    """A list in the order of texts after a change."""
    if not change:
        return backends
    found = list(backends)
    for each in change.left:
        del found[bisect_left(found, str(each), key=str)]
    for each in change.came:
        insort(found, each, key=str)
    return tuple(found)
