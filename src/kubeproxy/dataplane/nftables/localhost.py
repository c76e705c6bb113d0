"""Node ports of the loopback address: which listeners should exist, and which backend is used.

The kernel does not route packets from 127.0.0.1 or ::1 to a pod, so nftables mode serves the TCP
node ports of these two addresses with listeners of its own, when the operator enables it. The
sockets are in `linux.localproxy`.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.entries import Backend, Entry, FrontendKey, FrontendKind, Table
from kubeproxy.table.node import NodeView

SERVED_ADDRESS = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}

Address = tuple[str, int]
"""An IP address and a port."""


class Listener(msgspec.Struct, frozen=True):
    """The backends of a port of the loopback address: at least one.

    `affinity_seconds` is 0 without session affinity.
    """

    backends: tuple[Backend, ...]
    affinity_seconds: int = 0


class Pin(msgspec.Struct, frozen=True):
    """The backend that all clients of a listener get until a time: they have the same address.

    A pin is ignored when the listener has another `affinity_seconds` than it was made with.
    """

    backend: Backend
    affinity_seconds: int
    until: float


def listeners(
    known: Mapping[Address, Listener], touched: Iterable[Entry], table: Table, node: NodeView
) -> dict[Address, Listener]:
    """The listeners that should exist. A port without endpoints has none.

    `known` are those of this node before these entries of the table changed, as they were and as
    they are.
    """
    found = dict(known)
    if not node.serves_loopback_by_proxy():
        return found
    host = SERVED_ADDRESS[node.family]
    for port in {port for entry in touched for port in _node_ports(entry)}:
        entry = table.find(FrontendKey("", Protocol.TCP, port))
        listener = None if entry is None else _listener(entry)
        if listener is None:
            found.pop((host, port), None)
        else:
            found[host, port] = listener
    return found


def choose(
    listener: Listener, pin: Pin | None, now: float, chance: float
) -> tuple[Address, Pin | None]:
    """Where a new connection goes, and the pin for the next one.

    It goes to the pinned backend, or to any; `chance` is in [0, 1).

    With session affinity every connection restarts the timeout. A pin is also ignored when the
    listener no longer has its backend.
    """
    backends, seconds = listener.backends, listener.affinity_seconds
    backend = backends[int(chance * len(backends))]
    if not seconds:
        return (backend.address, backend.port), None
    holds = pin is not None and pin.affinity_seconds == seconds and now < pin.until
    if pin is not None and holds and pin.backend in backends:
        backend = pin.backend
    return (backend.address, backend.port), Pin(backend, seconds, now + seconds)


def _listener(entry: Entry) -> Listener | None:
    """The listener of a service port; None without endpoints.

    Clients get what clients outside get, as upstream. On the node's other addresses, the kernel's
    rules give them what the node gets.
    """
    backends = entry.backends(entry.external.outside.scope)
    return Listener(backends, entry.affinity_seconds) if backends else None


def _node_ports(entry: Entry) -> Iterator[int]:
    """The TCP node ports that lead to the service port."""
    if entry.protocol is Protocol.TCP:
        for frontend in entry.frontends:
            if frontend.kind is FrontendKind.NODE_PORT:
                yield frontend.port
