"""Which backend has which place, before and after a change."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kubeproxy.dataplane.nftables.placed import Placed, Slots
from kubeproxy.table.diff import ListChanges, Members
from kubeproxy.table.entries import Backend, Entry, ServicePortName

_NOBODY = Backend("", 0)


def place(entry: Entry, before: Placed | None, number: int, sources: int = 0) -> Placed:
    """Assign places to the backends of an entry, given those in the kernel."""
    return Placed(
        entry,
        rearrange(before.cluster if before else (), entry.cluster),
        rearrange(before.local if before else (), entry.local),
        number if entry.affinity_seconds else 0,
        sources,
    )


class Replaced(NamedTuple):
    """Two states of an entry: what differs between their lists.

    `cluster_places` and `local_places` are those that have another backend, or one only before
    or only after.
    """

    before: Placed
    after: Placed
    lists: ListChanges
    cluster_places: Sequence[int]
    local_places: Sequence[int]


LONG = 256
"""Backends of a list for which it is worth remembering where each is."""


class Places:
    """Where the backends of long lists are: looking for one among thousands takes time."""

    def __init__(self) -> None:
        self._known: dict[tuple[ServicePortName, bool], dict[Backend, int]] = {}

    def replace(
        self, before: Placed, entry: Entry, lists: ListChanges, numbers: tuple[int, int]
    ) -> Replaced:
        """The next state of an entry: backends that stay keep their places, as far as possible.

        `numbers` are the new ones, of the entry and of its allowed sources.
        """
        cluster, cluster_places = self._exchange(before, entry, lists.cluster, local=False)
        local, local_places = self._exchange(before, entry, lists.local, local=True)
        number, sources = numbers
        own = number if entry.affinity_seconds else 0
        after = Placed(entry, cluster, local, own, sources)
        return Replaced(before, after, lists, cluster_places, local_places)

    def _exchange(
        self, placed: Placed, entry: Entry, change: Members, *, local: bool
    ) -> tuple[Slots, Sequence[int]]:
        slots = placed.local if local else placed.cluster
        if not change:
            return slots, ()
        if not slots:
            wanted = entry.local if local else entry.cluster
            return rearrange((), wanted), range(len(wanted))
        find: Callable[[Backend], int] = slots.index
        if len(slots) >= LONG:
            key = placed.entry.name, local
            if key not in self._known:
                self._known[key] = {backend: place for place, backend in enumerate(slots)}
            find = self._known[key].__getitem__
        length = len(slots) - len(change.left) + len(change.came)
        return _filled(slots, sorted(map(find, change.left)), change.came, length)

    def commit(self, change: Replaced) -> None:
        """An entry is what it was replaced by."""
        before, after, _, cluster, local = change
        self._move(before.entry.name, cluster, before.cluster, after.cluster, local=False)
        self._move(before.entry.name, local, before.local, after.local, local=True)

    def forget(self, name: ServicePortName) -> None:
        """An entry is gone."""
        self._known.pop((name, False), None)
        self._known.pop((name, True), None)

    def _move(
        self,
        name: ServicePortName,
        places: Sequence[int],
        before: Slots,
        after: Slots,
        *,
        local: bool,
    ) -> None:
        known = self._known.get((name, local))
        if known is None:
            return
        for place in places:
            if place < len(before):
                del known[before[place]]
        known.update({after[place]: place for place in places if place < len(after)})


def rearrange(before: Sequence[Backend], wanted: Sequence[Backend]) -> Slots:
    """Places for the wanted backends that move as few as possible."""
    if not before or before == wanted:  # at the start: the kernel has nothing, or all of it
        return tuple(wanted)
    missing = set(wanted)
    length = len(missing)
    holes = []
    for place, backend in enumerate(before):
        if backend in missing:
            missing.remove(backend)
        else:  # not wanted, or listed twice: a list from the kernel may contain anything
            holes.append(place)
    return _filled(before, holes, missing, length)[0]


def _filled(
    before: Sequence[Backend], holes: Sequence[int], missing: Iterable[Backend], length: int
) -> tuple[Slots, Sequence[int]]:
    """A list of that length: its last ones, and then those that are missing, fill the holes."""
    empty = {*holes}
    last = range(length, len(before))
    moved = [before[place] for place in last if place not in empty]
    free = [hole for hole in holes if hole < length]
    free += range(len(before), length)
    places = list(before[:length])
    places += [_NOBODY] * (length - len(places))
    for place, backend in zip(free, [*moved, *sorted(missing)], strict=True):
        places[place] = backend
    return tuple(places), [*free, *last]
