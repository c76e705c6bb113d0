"""The changes of a cluster while it is measured, and their expected result.

Random numbers are an argument, so that ours and the peer meet the same changes.
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


class Expected(msgspec.Struct, frozen=True):
    """What the kernel must have of a service in the end: endpoints that came, none that went."""

    service: int
    count: int
    here: frozenset[int]
    gone: frozenset[int]


class Plan(msgspec.Struct, frozen=True):
    """Changes in the order in which they are sent, and their expected result."""

    changes: tuple[SliceChange, ...]
    expected: tuple[Expected, ...]


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

    def less(self, service: int) -> Plan:
        """A service loses its last endpoint."""
        return self._resized(service, self._serials[service][:-1])

    def more(self, service: int) -> Plan:
        """A service gets one more endpoint, at the end."""
        self._next += 1
        return self._resized(service, [*self._serials[service], self._next - 1])

    def _resized(self, service: int, serials: list[int]) -> Plan:
        old = frozenset(self._serials[service])
        last = max(len(serials), len(old)) - 1
        self._serials[service] = serials
        number = last // MOST_ENDPOINTS
        rest = tuple(serials[number * MOST_ENDPOINTS :])
        return Plan((SliceChange(service, number, rest),), (self._outcome(service, old),))

    def burst(self, count: int, rng: random.Random) -> Plan:
        """So many changes of one endpoint each, spread over as many services as there are."""
        order = list(range(self.size.services))
        rng.shuffle(order)
        places = [(order[i % len(order)], i // len(order)) for i in range(count)]
        before = {service: frozenset(self._serials[service]) for service, _ in places}
        changes = [
            self._replace(service, [turn % self.size.endpoints])[0] for service, turn in places
        ]
        return self._plan(changes, before)

    def rolling(self, share: float, rng: random.Random) -> Plan:
        """That share of the services gets new endpoints, all of them, a quarter at a time."""
        count = max(1, round(self.size.services * share))
        chosen = rng.sample(range(self.size.services), count)
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
        expected = tuple(self._outcome(service, before[service]) for service in last_first)
        return Plan(tuple(changes), expected)

    def _outcome(self, service: int, old: frozenset[int]) -> Expected:
        new = frozenset(self._serials[service])
        return Expected(service, len(new), here=new - old, gone=old - new)
