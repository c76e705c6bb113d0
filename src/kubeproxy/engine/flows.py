"""Which tracked UDP flows are stale: they go to an endpoint that does not serve their service.

The kernel translates the first packet of a flow and repeats that for all others, so a client that
keeps its source port never meets a new rule: its flow has to be deleted. TCP connections end.

Every mode cleans up after a successful sync. Until then the clean-up is kept, so that nothing is
lost when a sync or a clean-up fails.
"""

from collections.abc import Callable, Iterable

import msgspec

from kubeproxy.base.inet import Protocol, pack
from kubeproxy.linux.netlink.conntrack import Flow
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry, Table


class FlowCleanup(msgspec.Struct, frozen=True):
    """The clean-up that is due.

    `former` are UDP entries of service ports that were removed or changed, as they were: they
    identify flows to destinations that the table no longer has.
    """

    due: bool = False
    former: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return self.due


NONE_DUE = FlowCleanup()

AT_START = FlowCleanup(due=True)
"""Flows may be left from an earlier run."""


MOST_FORMER = 10_000
"""So many former entries are kept while syncs or clean-ups fail: memory stays bounded."""


def due_after(cleanup: FlowCleanup, changes: Changes) -> FlowCleanup:
    """The clean-up that is due after further changes."""
    if not wants_cleanup(changes):
        return cleanup
    return combined(cleanup, FlowCleanup(True, tuple(_former(changes))))


def combined(cleanup: FlowCleanup, later: FlowCleanup) -> FlowCleanup:
    """Two clean-ups as one; the oldest entries are dropped when there are too many."""
    return FlowCleanup(cleanup.due or later.due, (*cleanup.former[-MOST_FORMER:], *later.former))


def wants_cleanup(changes: Changes) -> bool:
    """Whether the changes can have made flows stale.

    That is when an endpoint of a UDP service port was added or removed, and, unlike upstream, when
    a frontend was: a client that dials an address before or after it is served keeps a flow too.
    """
    return (
        any(_is_udp(entry) and bool(entry.serving) for entry in changes.added)
        or any(map(_is_udp, changes.removed))
        or any(_moves(before, after) for before, after in changes.changed)
    )


def udp_entries(table: Table) -> tuple[Entry, ...]:
    """What `stale` needs of a table. The table changes in place; this does not."""
    return tuple(filter(_is_udp, table.entries.values()))


def stale(
    flows: Iterable[Flow], entries: Iterable[Entry], former: Iterable[Entry] = ()
) -> list[Flow]:
    """The flows that have to be deleted, given the UDP entries of their family.

    A flow to a frontend is stale unless its responder is one of the endpoints that serve it now.
    A node port is known by its number alone, which other flows may have too: while it has no
    endpoints, they all stay. A flow that belongs to no entry is stale when a former entry made it.
    """
    current = {
        key: entry
        for entry in entries
        for key in _keys(entry)
        if entry.serving or not _is_node_port(key)
    }
    before: dict[bytes, list[Entry]] = {}
    for entry in former:
        for key in _keys(entry):
            before.setdefault(key, []).append(entry)
    serves = _responders()

    def is_stale(flow: Flow) -> bool:
        node_port = flow.destination[-2:]
        entry = current.get(flow.destination) or current.get(node_port)
        if entry is not None:
            return not serves(entry, flow.responder)
        suspects = (*before.get(flow.destination, ()), *before.get(node_port, ()))
        return any(serves(entry, flow.responder) for entry in suspects)

    return list(filter(is_stale, flows))


def _is_udp(entry: Entry) -> bool:
    return entry.protocol is Protocol.UDP


def _moves(before: Entry, after: Entry) -> bool:
    return _is_udp(before) and (
        before.serving != after.serving or before.frontends != after.frontends
    )


def _former(changes: Changes) -> Iterable[Entry]:
    yield from filter(_is_udp, changes.removed)
    for before, after in changes.changed:
        if _moves(before, after):
            yield before


def _keys(entry: Entry) -> Iterable[bytes]:
    """The destinations that lead to an entry, as flows name them; a node port is a port only."""
    return (_key(frontend.address, frontend.port) for frontend in entry.frontends)


def _key(address: str, port: int) -> bytes:
    return (pack(address) if address else b"") + port.to_bytes(2, "big")


def _is_node_port(key: bytes) -> bool:
    return len(key) == 2


def _responders() -> Callable[[Entry, bytes], bool]:
    """Whether an endpoint serves an entry. The endpoints of an entry are packed at most once."""
    known: dict[int, frozenset[bytes]] = {}

    def serves(entry: Entry, responder: bytes) -> bool:
        serving = known.get(id(entry))
        if serving is None:
            serving = frozenset(_key(backend.address, backend.port) for backend in entry.serving)
            known[id(entry)] = serving
        return responder in serving

    return serves
