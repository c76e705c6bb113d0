"""Which connection is of a watched service port, and what became of it.

Most events of a busy node are about others: `place_of` turns these away by comparing bytes.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.base.inet import join, pack, unpack
from kubeproxy.linux.netlink.conntrack import Connection, Dialled
from kubeproxy.tools.trace.watched import NODE_PORT, Endpoint, Frontend, Watched

NodePort = tuple[bytes, bytes]
"""Protocol and port, as in `Dialled`."""
Place = tuple[Watched, Frontend]


class Peer(msgspec.Struct, frozen=True):
    """One end of a connection."""

    address: str
    port: int

    def __str__(self) -> str:
        return join(self.address, self.port)


class Traced(msgspec.Struct, frozen=True):
    """A connection of a watched service port.

    `endpoint` is None when the destination was not translated: whoever has that address answers.
    `seen` is the source that the endpoint sees.
    """

    watched: Watched
    frontend: Frontend
    client: Peer
    destination: Peer
    endpoint: Endpoint | None
    seen: Peer


class Index(msgspec.Struct, frozen=True):
    """The watched service ports by what events say.

    `own` are the addresses of this node, on which node ports are served.
    """

    exact: Mapping[Dialled, Place]
    node_ports: Mapping[NodePort, Place]
    endpoints: Mapping[bytes, Endpoint]
    own: frozenset[bytes]


def index(watched: Iterable[Watched], own: Iterable[str]) -> Index:
    """The index of these; of two that have the same frontend the first counts."""
    exact: dict[Dialled, Place] = {}
    node_ports: dict[NodePort, Place] = {}
    endpoints: dict[bytes, Endpoint] = {}
    for each in watched:
        protocol = bytes([each.protocol])
        for frontend in each.frontends:
            port = frontend.port.to_bytes(2, "big")
            if frontend.kind == NODE_PORT:
                node_ports.setdefault((protocol, port), (each, frontend))
            else:
                exact.setdefault((pack(frontend.address), protocol, port), (each, frontend))
        for endpoint in each.endpoints:
            endpoints[pack(endpoint.address) + endpoint.port.to_bytes(2, "big")] = endpoint
    return Index(exact, node_ports, endpoints, frozenset(map(pack, own)))


def place_of(known: Index, dialled: Dialled) -> Place | None:
    """Whose connection it may be, by what was dialled; None when it is nobody's."""
    return known.exact.get(dialled) or known.node_ports.get(dialled[1:])


def is_of(known: Index, place: Place, connection: Connection) -> bool:
    """Whether the connection is of that place: a node port may be another node's."""
    return (
        place[1].kind != NODE_PORT
        or connection.destination[:-2] in known.own
        or connection.responder in known.endpoints
    )


def describe(known: Index, place: Place, connection: Connection) -> Traced:
    """What became of a connection of that place."""
    watched, frontend = place
    to, responder = connection.destination, connection.responder
    chosen = known.endpoints.get(responder)
    if chosen is None and responder != to:
        at = peer(responder)
        chosen = Endpoint(at.address, at.port)
    return Traced(
        watched=watched,
        frontend=frontend,
        client=peer(connection.client),
        destination=peer(to),
        endpoint=chosen,
        seen=peer(connection.seen),
    )


def peer(end: bytes) -> Peer:
    """Address and port in network order, as a value."""
    return Peer(unpack(end[:-2]), int.from_bytes(end[-2:], "big"))
