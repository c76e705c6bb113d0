"""Which tracked UDP flows are stale: they go to somebody who does not serve their service.

The kernel translates the first packet of a flow and repeats that for all others, so a client that
keeps its source port never sees a new rule: its flow has to be forgotten. TCP ends by itself.

Every mode cleans up after a sync that succeeded. What is owed (`Debt`) is kept until then, so
that a sync that fails, or a clean-up that does, loses nothing.
"""

from collections.abc import Callable, Iterable

import msgspec

from kubeproxy.base.inet import Protocol, pack
from kubeproxy.linux.netlink.conntrack import Flow
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry, Table


class Debt(msgspec.Struct, frozen=True):
    """What clean-up is owed.

    `former` are UDP entries as they were, of service ports that went or changed: by them flows
    are found that the table of today knows nothing about.
    """

    due: bool = False
    former: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return self.due


PAID = Debt()
"""Nothing is owed."""

AT_START = Debt(due=True)
"""Flows may be there from before."""


MOST_FORMER = 10_000
"""So many former entries are kept while syncs or clean-ups fail: memory does not grow for ever."""


def owe(debt: Debt, changes: Changes) -> Debt:
    """What is owed after further changes."""
    if not wants_cleanup(changes):
        return debt
    return both(debt, Debt(True, tuple(_former(changes))))


def both(debt: Debt, later: Debt) -> Debt:
    """Two debts as one; the oldest entries are forgotten when there are too many to keep."""
    return Debt(debt.due or later.due, (*debt.former[-MOST_FORMER:], *later.former))


def wants_cleanup(changes: Changes) -> bool:
    """Whether the changes can have made flows stale.

    That is when an endpoint of a UDP service port came or went, and, beyond upstream's rule, when
    one of its frontends did: a client that dials an address before it leads somewhere, or after,
    keeps a flow too.
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
    """The flows that have to be forgotten, given the UDP entries of their family.

    A flow to a frontend is stale unless its responder is one of the endpoints that serve there
    now. A node port is known by its number alone, which foreign flows may have too: while nobody
    serves there, they all stay. What no entry decides is stale when it is what a former entry
    made.
    """
    today = {
        key: entry
        for entry in entries
        for key in _keys(entry)
        if entry.serving or not _is_node_port(key)
    }
    before: dict[bytes, list[Entry]] = {}
    for entry in former:
        for key in _keys(entry):
            before.setdefault(key, []).append(entry)
    serves = _memory_of_responders()

    def is_stale(flow: Flow) -> bool:
        node_port = flow.destination[-2:]
        entry = today.get(flow.destination) or today.get(node_port)
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


def _memory_of_responders() -> Callable[[Entry, bytes], bool]:
    """Whether an endpoint serves an entry; the endpoints of an entry are packed when asked for."""
    known: dict[int, frozenset[bytes]] = {}

    def serves(entry: Entry, responder: bytes) -> bool:
        serving = known.get(id(entry))
        if serving is None:
            serving = frozenset(_key(backend.address, backend.port) for backend in entry.serving)
            known[id(entry)] = serving
        return responder in serving

    return serves
