"""Counters that may begin again at zero -> totals that only grow.

A kernel's counter begins at zero when its table is made again, when it is replaced, when an
endpoint moves in its map. The total continues: what is lost is what came between the last reading
and that moment.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import msgspec

from kubeproxy.dataplane.contract import Count
from kubeproxy.table.entries import Backend, Frontend, ServicePortName

T = TypeVar("T", bound=Hashable)


class Tally(msgspec.Struct, frozen=True):
    """The totals of one service port, and the values of its counters when they were last read.

    There are totals of endpoints only where endpoints count too.
    """

    frontends: dict[Frontend, int] = {}
    endpoints: dict[Backend, int] = {}
    seen: dict[Hashable, int] = {}


class PortRates(msgspec.Struct, frozen=True):
    """Connections per second of one service port."""

    frontends: dict[Frontend, float] = {}
    endpoints: dict[Backend, float] = {}


class Totals(msgspec.Struct, frozen=True):
    """The totals of one family at a time, and the epoch of the counters."""

    time: float
    epoch: int = 0
    tallies: Mapping[ServicePortName, Tally] = {}


class TrafficWindow(msgspec.Struct, frozen=True):
    """The totals of one family now and some seconds before, for rates.

    `before` is None when the counters were not read then.
    """

    now: Totals
    before: Totals | None = None

    @property
    def seconds(self) -> float:
        """The time between the two; 0 when there is only one."""
        return self.now.time - self.before.time if self.before else 0.0

    def rates(self, name: ServicePortName) -> PortRates | None:
        """How fast the totals of a service port grow; None when that is not known."""
        if self.before is None:
            return None
        now, before = (each.tallies.get(name, NOTHING) for each in (self.now, self.before))
        return PortRates(
            _per_second(now.frontends, before.frontends, self.seconds),
            _per_second(now.endpoints, before.endpoints, self.seconds),
        )


def _per_second(now: Mapping[T, int], before: Mapping[T, int], seconds: float) -> dict[T, float]:
    """How fast totals grew; one that was not there before has no rate yet."""
    return {key: (total - before.get(key, total)) / seconds for key, total in now.items()}


NOTHING = Tally()


def accumulate(before: Tally, counts: Sequence[Count], *, reset: bool) -> Tally:
    """The totals after one more reading; `reset` when every counter has begun at zero since.

    A counter with less than before has begun again. The first reading of all is taken as it
    is: a process that starts continues with what the kernel has. Frontends and endpoints that are
    not in the reading are removed. Where nothing has changed, the tally is the same object: most
    services are idle most of the time, and new objects by the thousand call the garbage collector.
    """
    if not reset and _has(before, counts):
        return before
    frontends: dict[Frontend, int] = {}
    endpoints: dict[Backend, int] = {}
    seen: dict[Hashable, int] = {}
    for target, counter, value in counts:
        known = 0 if reset else before.seen.get(counter, 0)
        grown = 0
        if value is None:
            value = known  # noqa: PLW2901  # it was not read: as it was
        else:
            grown = value if value < known else value - known
        seen[counter] = value
        if isinstance(target, Frontend):
            frontends[target] = frontends.get(target, before.frontends.get(target, 0)) + grown
        else:
            endpoints[target] = endpoints.get(target, before.endpoints.get(target, 0)) + grown
    return Tally(frontends, endpoints, seen)


def _has(tally: Tally, counts: Sequence[Count]) -> bool:
    """Whether a reading has what the tally has already."""
    seen, frontends, endpoints = tally.seen, tally.frontends, tally.endpoints
    if len(seen) != len(counts):
        return False
    return all(
        seen.get(counter) == value and (target in frontends or target in endpoints)
        for target, counter, value in counts
    )
