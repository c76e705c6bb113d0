"""What a service port has, and what follows when it has something else."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

import msgspec

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.dataplane.userspace import orders
from kubeproxy.dataplane.userspace.choosing import Target
from kubeproxy.dataplane.userspace.listeners import Listener, ListKey, Place, given
from kubeproxy.dataplane.userspace.rules import Element, elements
from kubeproxy.table.entries import Backend, Entry
from kubeproxy.table.node import NodeView


class Opened(msgspec.Struct, frozen=True):
    """A listener that is open: the number that workers know it by, and where it is."""

    number: int
    place: Place


class Part(msgspec.Struct, frozen=True):
    """What a service port has: listeners, lists of endpoints by their numbers, and elements."""

    entry: Entry
    service: int
    listeners: Mapping[Listener, Opened] = {}
    lists: Mapping[ListKey, int] = {}
    elements: frozenset[Element] = frozenset()

    def targets(self) -> Iterator[orders.Targets]:
        """What workers know of its lists."""
        for key, number in self.lists.items():
            yield orders.Targets(
                number=number,
                service=self.service,
                name=str(self.entry.name),
                affinity_seconds=self.entry.affinity_seconds,
                targets=targets(self.entry.backends(key.scope)),
            )

    def opens(self) -> Iterator[orders.Open]:
        """What workers know of its listeners."""
        is_tcp = self.entry.protocol is Protocol.TCP
        for listener, opened in self.listeners.items():
            yield orders.Open(opened.number, is_tcp, self.lists[listener.list_key])


def tally(change: EntryChange, node: NodeView) -> int:
    """How many elements are written, and lists of endpoints told."""

    def objects(entry: Entry | None) -> set[object]:
        if entry is None:
            return set()
        listeners = {each for found in given(entry, node) for each in found.listeners}
        lists = {each.list_key for each in listeners}
        told = {(key, targets(entry.backends(key.scope))) for key in lists}
        return {*elements(entry, node, lambda _: 0), *told}

    return len(objects(change.before) ^ objects(change.after))


def targets(backends: Iterable[Backend]) -> tuple[Target, ...]:
    """Backends as workers dial them."""
    return tuple((each.address, each.port) for each in backends)


class Change:
    """What a sync does: orders before the rules change and after, and elements.

    Workers learn of endpoints and listeners before packets are led to them, and forget them when
    none are any more.
    """

    def __init__(self) -> None:
        self.before: list[orders.Order] = []
        self.after: list[orders.Order] = []
        self._gone: set[Element] = set()
        self._come: set[Element] = set()

    @property
    def gone(self) -> set[Element]:
        """The elements that go. One that goes and comes stays: two service ports swapped it."""
        return self._gone - self._come

    @property
    def come(self) -> set[Element]:
        """The elements that come."""
        return self._come - self._gone

    @property
    def size(self) -> int:
        """How much is written."""
        return len(self.before) + len(self.after) + len(self.gone) + len(self.come)

    def replace(self, before: Part | None, after: Part | None) -> None:
        """A service port has something else now; None is nothing."""
        old = _Known(before)
        new = _Known(after)
        self.before += (each for each in new.targets if each not in old.targets)
        self.before += (each for each in new.opens if each not in old.opens)
        kept = {each.listener for each in new.opens}
        self.after += (orders.Close(e.listener) for e in old.opens if e.listener not in kept)
        known = {each.number for each in new.targets}
        self.after += (orders.Drop(e.number) for e in old.targets if e.number not in known)
        self._gone |= old.elements - new.elements
        self._come |= new.elements - old.elements


class _Known:
    """What workers and the kernel know of a part."""

    def __init__(self, part: Part | None) -> None:
        self.targets = [] if part is None else list(part.targets())
        self.opens = [] if part is None else list(part.opens())
        self.elements = frozenset() if part is None else part.elements


class Numbers:
    """Numbers for what workers are told of; none is given twice."""

    def __init__(self) -> None:
        self._next = count(1)

    def new(self) -> int:
        """A number."""
        return next(self._next)
