"""Which listeners there should be: one for each frontend, and for each list of endpoints of it."""

from collections.abc import Iterator
from typing import NamedTuple

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.userspace.settings import QUIRKS
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, ServicePortName
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Refusal, Scope, Source
from kubeproxy.table.route import Route, route

SERVED = frozenset({Protocol.TCP, Protocol.UDP})


class Place(NamedTuple):
    """Where a listener listens; port 0 leaves that to the kernel."""

    address: str
    port: int


class ListKey(NamedTuple):
    """The endpoints of a service port that a policy has."""

    name: ServicePortName
    scope: Scope


class Listener(NamedTuple):
    """A socket that passes on what comes to a frontend, to the endpoints of a scope.

    `keeps_clients` says that all connections of a client come to the same worker.
    """

    name: ServicePortName
    frontend: Frontend
    scope: Scope
    keeps_clients: bool

    @property
    def list_key(self) -> ListKey:
        """Where its endpoints are."""
        return ListKey(self.name, self.scope)


class Given(NamedTuple):
    """What clients get from a frontend: a listener for clients outside, or why there is none.

    `inside` is the listener for the node and its pods where they get other endpoints. A policy
    that makes a difference gives them all endpoints, so that they get some when others do.
    """

    frontend: Frontend
    outside: Listener | None
    refusal: Refusal | None
    inside: Listener | None

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners."""
        return tuple(filter(None, (self.outside, self.inside)))


def given(entry: Entry, node: NodeView) -> Iterator[Given]:
    """What clients get from each frontend."""
    if entry.protocol not in SERVED:
        return
    for frontend in dict.fromkeys(filter(None, map(entry.find, entry.keys()))):
        is_node_port = frontend.kind is FrontendKind.NODE_PORT
        if is_node_port and not node.opens_node_ports(QUIRKS, entry.protocol):
            continue
        outside = _listener(entry, frontend, node, Source.OUTSIDE)
        inside = _listener(entry, frontend, node, Source.HOST)
        refusal = _route(entry, frontend, node, Source.OUTSIDE).refusal
        yield Given(frontend, outside, refusal, None if inside == outside else inside)


def listener_of(entry: Entry, frontend: Frontend, scope: Scope) -> Listener:
    """The listener of a frontend and a scope."""
    return Listener(entry.name, frontend, scope, bool(entry.affinity_seconds))


def _listener(entry: Entry, frontend: Frontend, node: NodeView, source: Source) -> Listener | None:
    found = _route(entry, frontend, node, source)
    return None if found.refusal else listener_of(entry, frontend, found.scope)


def _route(entry: Entry, frontend: Frontend, node: NodeView, source: Source) -> Route:
    return route(entry, frontend.kind, source, node.masquerading, QUIRKS)
