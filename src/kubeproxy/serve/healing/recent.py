"""The latest failures, numbered, and how many there were of late."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.failures import Failure
from kubeproxy.table.entries import ServicePortName

MOST: Final = 1000
"""That are kept."""
OF_LATE: Final = 60.0
_SLOT: Final = 5.0


class NumberedFailure(NamedTuple):
    """A failure of a service port's endpoint; `at` is seconds of the wall clock."""

    number: int
    at: float
    family: Family
    name: ServicePortName
    failure: Failure


class Recent:
    """The latest failures of both families. Numbers begin at 1 and have no gaps."""

    def __init__(self) -> None:
        self._kept: deque[NumberedFailure] = deque(maxlen=MOST)
        self.last = 0
        """The number of the last failure."""
        self._of_late: dict[Family, deque[tuple[int, int]]] = {}

    def add(self, family: Family, name: ServicePortName, failure: Failure, now: float) -> None:
        """One more."""
        self.last += 1
        self._kept.append(NumberedFailure(self.last, now, family, name, failure))
        slots = self._of_late.setdefault(family, deque(maxlen=int(OF_LATE / _SLOT)))
        slot, before = int(now / _SLOT), 0
        if slots and slots[-1][0] == slot:
            before = slots.pop()[1]
        slots.append((slot, before + failure.times))

    def after(self, number: int) -> Iterator[NumberedFailure]:
        """Those after a number, as far as they are kept."""
        first = self.last - len(self._kept)
        return islice(self._kept, max(0, number - first), None)

    def of_late(self, family: Family, now: float) -> int:
        """How many connections failed in the last minute."""
        oldest = int((now - OF_LATE) / _SLOT)
        return sum(count for slot, count in self._of_late.get(family, ()) if slot > oldest)
