"""What a trace has seen, all in all."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubeproxy.linux.netlink.conntrack import Connection
from kubeproxy.tools.trace.index import peer

NOT_TRANSLATED: Final = "not translated"
_NOBODY: Final = b""
_MOST: Final = 20


class Tally:
    """Counts the connections, those that were shown, and those of each endpoint."""

    def __init__(self) -> None:
        self.seen = 0
        self.shown = 0
        self._endpoints: Counter[bytes] = Counter()

    def add(self, connection: Connection, *, shown: bool) -> None:
        """One more connection."""
        self.seen += 1
        self.shown += shown
        is_translated = connection.responder != connection.destination
        self._endpoints[connection.responder if is_translated else _NOBODY] += 1

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
    return str(peer(end)) if end != _NOBODY else NOT_TRANSLATED
