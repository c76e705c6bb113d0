"""From events to what is shown, within bounds. No I/O: events come in, connections go out."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kubeproxy.linux.netlink.conntrack import Connection, connection_in, dialled
from kubeproxy.tools.trace.connections import (
    Filter,
    Index,
    Traced,
    describe,
    is_of,
    peer,
    place_of,
)

NOT_TRANSLATED: Final = "not translated"
_NO_ENDPOINT: Final = b""
_MOST: Final = 20


class Bounds(msgspec.Struct, frozen=True):
    """What is wanted, and how much: 0 is no bound.

    `count` connections are shown, for `seconds`, `rate` in each of them.
    """

    wanted: Filter = Filter()
    count: int = 0
    seconds: float = 0
    rate: int = 0


class Trace:
    """Shows the connections that are wanted, at most `rate` a second, and counts all.

    `known` is whose connections are traced; it may be replaced at any time.
    """

    def __init__(self, known: Index, bounds: Bounds, show: Callable[[Traced], None]) -> None:
        self.known = known
        self.bounds = bounds
        self.seen = 0
        self.shown = 0
        self._show = show
        self._in_this_second = 0
        self._held_back = 0
        self._endpoints: Counter[bytes] = Counter()

    @property
    def is_complete(self) -> bool:
        """Whether as many were shown as were asked for."""
        return 0 < self.bounds.count <= self.shown

    def take(self, event: bytes) -> None:
        """One more connection of this node."""
        to = dialled(event)
        place = place_of(self.known, to) if to else None
        connection = connection_in(event) if place else None
        if place is None or connection is None or not is_of(self.known, place, connection):
            return
        if not self.bounds.wanted.accepts(connection):
            return
        self._count(connection)
        if self.bounds.rate and self._in_this_second >= self.bounds.rate:
            self._held_back += 1
            return
        self._in_this_second += 1
        self.shown += 1
        self._show(describe(self.known, place, connection))

    def _count(self, connection: Connection) -> None:
        self.seen += 1
        is_translated = connection.responder != connection.destination
        self._endpoints[connection.responder if is_translated else _NO_ENDPOINT] += 1

    def begin_second(self) -> int:
        """Begin a new second; how many were not shown in the one that is over."""
        held_back = self._held_back
        self._in_this_second = self._held_back = 0
        return held_back

    def summary(self, lost: int) -> Iterator[str]:
        """Lines for people; `lost` are events of the whole node that came too fast."""
        events = f"{lost:,} events of this node lost" if lost else "nothing lost"
        connections = "connection" if self.seen == 1 else "connections"
        yield f"{self.seen:,} {connections}, {self.shown:,} shown, {events}"
        counts = [(_named(end), count) for end, count in self._endpoints.most_common(_MOST)]
        width = max((len(name) for name, _ in counts), default=0)
        for name, count in counts:
            yield f"  {name:{width}}  {count:,}"
        more = len(self._endpoints) - len(counts)
        if more:
            yield f"  and {more:,} more endpoints"


def _named(end: bytes) -> str:
    return str(peer(end)) if end != _NO_ENDPOINT else NOT_TRANSLATED
