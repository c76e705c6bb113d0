"""What happens to a cluster while it is measured: which slices change, and what must come of it.

Pure: the dice are handed in, so that ours and the peer meet the same changes in the same order.
"""

import random
from collections.abc import Iterator, Sequence

import msgspec

from bench.clusters import MOST_ENDPOINTS, Size, slices

ROLLING_STEPS = 4
"""A rolling update replaces a quarter of the pods at a time: the default of a Deployment."""


class SliceChange(msgspec.Struct, frozen=True, array_like=True):
    """A slice as it is from now on."""

    service: int
    number: int
    serials: tuple[int, ...]


class Wanted(msgspec.Struct, frozen=True):
    """What the kernel has to know of a service when all is done: endpoints that came and went."""

    service: int
    here: frozenset[int]
    gone: frozenset[int]


class Plan(msgspec.Struct, frozen=True):
    """Changes in the order in which they are sent, and what has to come of them."""

    changes: tuple[SliceChange, ...]
    wanted: tuple[Wanted, ...]


class Fleet:
    """The endpoints of all services as they are now."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._serials = [list(size.serials(index)) for index in range(size.services)]
        self._next = size.total

    def endpoints(self, service: int) -> Sequence[int]:
        """The serial numbers of a service's endpoints."""
        return tuple(self._serials[service])

    def one(self, service: int) -> Plan:
        """One endpoint of a service is replaced: its first."""
        old = frozenset(self._serials[service])
        return Plan((self._replace(service, [0])[0],), (self._outcome(service, old),))

    def burst(self, count: int, dice: random.Random) -> Plan:
        """So many changes of one endpoint each, spread over as many services as there are."""
        order = list(range(self.size.services))
        dice.shuffle(order)
        places = [(order[i % len(order)], i // len(order)) for i in range(count)]
        before = {service: frozenset(self._serials[service]) for service, _ in places}
        changes = [
            self._replace(service, [turn % self.size.endpoints])[0] for service, turn in places
        ]
        return self._plan(changes, before)

    def rolling(self, share: float, dice: random.Random) -> Plan:
        """That share of the services gets new endpoints, all of them, a quarter at a time."""
        count = max(1, round(self.size.services * share))
        chosen = dice.sample(range(self.size.services), count)
        before = {service: frozenset(self._serials[service]) for service in chosen}
        changes = [
            change
            for step in range(ROLLING_STEPS)
            for service in chosen
            for change in self._replace(service, list(self._quarter(step)))
        ]
        return self._plan(changes, before)

    def _quarter(self, step: int) -> Iterator[int]:
        return iter(range(step, self.size.endpoints, ROLLING_STEPS))

    def _replace(self, service: int, places: Sequence[int]) -> list[SliceChange]:
        """New endpoints at these places; the slices that this changes."""
        serials = self._serials[service]
        for place in places:
            serials[place] = self._next
            self._next += 1
        touched = sorted({place // MOST_ENDPOINTS for place in places})
        parts = slices(serials)
        return [SliceChange(service, number, tuple(parts[number])) for number in touched]

    def _plan(self, changes: Sequence[SliceChange], before: dict[int, frozenset[int]]) -> Plan:
        # Last sent, first asked for: the others have most likely been programmed before it.
        last_first = dict.fromkeys(change.service for change in reversed(changes))
        wanted = tuple(self._outcome(service, before[service]) for service in last_first)
        return Plan(tuple(changes), wanted)

    def _outcome(self, service: int, old: frozenset[int]) -> Wanted:
        new = frozenset(self._serials[service])
        return Wanted(service, here=new - old, gone=old - new)
