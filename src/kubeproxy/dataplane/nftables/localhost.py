"""Node ports of the loopback address: which listeners should exist, and whom a client gets.

The kernel does not route packets from 127.0.0.1 or ::1 to a pod, so nftables mode serves the TCP
node ports of these two addresses with listeners of its own, when the operator asks for it. Here
is what they should be; the sockets are in `kernel.localproxy`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Backend, Entry, FrontendKey, FrontendKind, Table
from kubeproxy.table.node import Node

SERVED_ADDRESS = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}

Address = tuple[str, int]
"""An IP address and a port."""


class Listener(msgspec.Struct, frozen=True):
    """Who serves a port of the loopback address: at least one backend.

    `affinity_seconds` is 0 without session affinity.
    """

    backends: tuple[Backend, ...]
    affinity_seconds: int = 0


class Pin(msgspec.Struct, frozen=True):
    """The backend that all clients of a listener get, until that time.

    There is one for all of them, because they all have the same address. `affinity_seconds` is
    the timeout that made the pin: it does not hold under another.
    """

    backend: Backend
    affinity_seconds: int
    until: float


class Choice(NamedTuple):
    """Where to connect to, and the pin that the next choice has to know."""

    target: Address
    pin: Pin | None


def listeners(table: Table, node: Node) -> dict[Address, Listener]:
    """The listeners that should exist. A port that nobody serves has none."""
    if not node.serves_loopback_by_proxy():
        return {}
    host = SERVED_ADDRESS[node.family]
    return {
        (host, port): listener
        for entry in table.entries.values()
        if (listener := _listener(entry)) is not None
        for port in _node_ports(entry)
    }


def follow(
    known: Mapping[Address, Listener], changes: Changes, table: Table, node: Node
) -> dict[Address, Listener]:
    """The same as `listeners`, at the cost of what changed.

    `known` are the listeners of this node before the changes, and `table` already has them.
    """
    followed = dict(known)
    if not node.serves_loopback_by_proxy():
        return followed
    host = SERVED_ADDRESS[node.family]
    for port in {port for entry in _touched(changes) for port in _node_ports(entry)}:
        entry = table.find(FrontendKey("", Protocol.TCP, port))
        listener = None if entry is None else _listener(entry)
        if listener is None:
            followed.pop((host, port), None)
        else:
            followed[host, port] = listener
    return followed


def choose(listener: Listener, pin: Pin | None, now: float, chance: float) -> Choice:
    """Whom a new connection gets: the pinned backend, or any; `chance` is in [0, 1).

    With session affinity every connection starts the timeout anew. A pinned backend that the
    listener no longer has does not hold either.
    """
    backends = listener.backends
    backend = backends[int(chance * len(backends))]
    seconds = listener.affinity_seconds
    if not seconds:
        return Choice((backend.address, backend.port), None)
    if pin is not None and _holds(pin, listener, now):
        backend = pin.backend
    return Choice((backend.address, backend.port), Pin(backend, seconds, now + seconds))


def _holds(pin: Pin, listener: Listener, now: float) -> bool:
    return (
        now < pin.until
        and pin.affinity_seconds == listener.affinity_seconds
        and pin.backend in listener.backends
    )


def _listener(entry: Entry) -> Listener | None:
    """The listener of a service port; None when there is nobody that it could connect to.

    Policy Local counts for this node's own clients too, as it does upstream; the kernel's rules
    for the node's other addresses give them all endpoints.
    """
    backends = entry.backends(entry.external.outside.scope)
    return Listener(backends, entry.affinity_seconds) if backends else None


def _node_ports(entry: Entry) -> Iterator[int]:
    """The TCP node ports that lead to the service port."""
    if entry.protocol is Protocol.TCP:
        for frontend in entry.frontends:
            if frontend.kind is FrontendKind.NODE_PORT:
                yield frontend.port


def _touched(changes: Changes) -> Iterator[Entry]:
    """Every entry that was or is different, as it was and as it is."""
    yield from changes.removed
    for pair in changes.changed:
        yield from pair
    yield from changes.added
