"""From events to what is shown, within bounds. No I/O: events come in, connections go out."""

from collections.abc import Callable

import msgspec

from kubeproxy.linux.netlink.conntrack import connection_in, dialled
from kubeproxy.tools.trace.filters import Filter, accepts
from kubeproxy.tools.trace.index import Index, Traced, describe, is_of, place_of
from kubeproxy.tools.trace.limit import Limit
from kubeproxy.tools.trace.tally import Tally


class Bounds(msgspec.Struct, frozen=True):
    """What is wanted, and how much: 0 is no bound.

    `count` connections are shown, for `seconds`, `rate` in each of them.
    """

    wanted: Filter = Filter()
    count: int = 0
    seconds: float = 0
    rate: int = 0


class Trace:
    """Shows the connections that are wanted, and counts.

    `known` is whose connections are traced; it may be replaced at any time.
    """

    def __init__(self, known: Index, bounds: Bounds, show: Callable[[Traced], None]) -> None:
        self.known = known
        self.bounds = bounds
        self.tally = Tally()
        self.limit = Limit(bounds.rate)
        self._show = show

    @property
    def is_complete(self) -> bool:
        """Whether as many were shown as were asked for."""
        return 0 < self.bounds.count <= self.tally.shown

    def take(self, event: bytes) -> None:
        """One more connection, of whomever."""
        to = dialled(event)
        place = place_of(self.known, to) if to else None
        connection = connection_in(event) if place else None
        if place is None or connection is None or not is_of(self.known, place, connection):
            return
        if not accepts(self.bounds.wanted, connection):
            return
        shown = self.limit.passes()
        self.tally.add(connection, shown=shown)
        if shown:
            self._show(describe(self.known, place, connection))
