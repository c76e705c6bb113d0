"""Connections that are shown as soon as it is known whether they are answered.

The kernel is asked for the entry of each, soon and then less and less often: events of answers
would come for every connection of the node, several for each, and most are of no interest.
"""

import heapq
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.linux.netlink.conntrack import Connection
from kubeproxy.tools.trace.connections import Traced
from kubeproxy.tools.trace.outcomes import SECONDS, Outcome, outcome_of

_FIRST: Final = 0.01


class Awaited(msgspec.Struct, frozen=True):
    """A connection that began at a time of the day, and by the steady clock at `since`."""

    traced: Traced
    at: datetime
    since: float


class Waiting:
    """The connections of which it is not known yet. All times are those of the steady clock."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Awaited]] = []
        self._number = 0

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._queue)

    @property
    def next(self) -> float:
        """When the next one is due; infinity when there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def add(self, awaited: Awaited) -> None:
        """One more that has just begun."""
        self._put(awaited, awaited.since + _FIRST)

    def due(self, now: float) -> list[Awaited]:
        """Those whose entry should be read now; they wait no more until `settle`."""
        found = []
        while self._queue and self._queue[0][0] <= now:
            found.append(heapq.heappop(self._queue)[2])
        return found

    def settle(
        self,
        awaited: Iterable[Awaited],
        entries: Iterable[tuple[Connection, int | None]],
        now: float,
    ) -> Iterator[Awaited]:
        """Those of which it is known what became of them; the others wait on."""
        for each, (connection, status) in zip(awaited, entries, strict=True):
            waited = now - each.since
            outcome = outcome_of(connection.protocol, status, waited)
            if outcome is Outcome.WAITING:
                # Twice as long after it began, and at the end of its time.
                self._put(each, each.since + min(2 * waited, SECONDS))
            else:
                yield replace(each, traced=replace(each.traced, outcome=outcome))

    def rest(self) -> list[Awaited]:
        """All that still wait, the oldest first; none do then."""
        found = sorted((each for _, _, each in self._queue), key=lambda each: each.since)
        self._queue = []
        return found

    def _put(self, awaited: Awaited, due: float) -> None:
        self._number += 1
        heapq.heappush(self._queue, (due, self._number, awaited))
