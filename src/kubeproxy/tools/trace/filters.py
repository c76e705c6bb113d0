"""Which connections are wanted: by their client, and by the endpoint that was chosen."""

from collections.abc import Iterable

import msgspec

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import Prefix, contains, family_of, network, parse_address, parse_prefix
from kubeproxy.explain.destination import port_number, split_port
from kubeproxy.linux.netlink.conntrack import Connection
from kubeproxy.tools.trace.index import Peer, peer

ANY_PORT = 0


class Filter(msgspec.Struct, frozen=True):
    """One of the clients and one of the endpoints; of what is empty, any."""

    clients: tuple[Prefix, ...] = ()
    endpoints: tuple[Peer, ...] = ()


def parse(clients: Iterable[str], endpoints: Iterable[str]) -> Filter:
    """The filter that the texts of --from and --endpoint name."""
    return Filter(tuple(map(_client, clients)), tuple(map(_endpoint, endpoints)))


def accepts(wanted: Filter, connection: Connection) -> bool:
    """Whether the connection is one of those."""
    return _is_from(wanted.clients, connection) and _goes_to(wanted.endpoints, connection)


def _is_from(clients: tuple[Prefix, ...], connection: Connection) -> bool:
    if not clients:
        return True
    client = peer(connection.client).address
    return any(contains(prefix, client) for prefix in clients)


def _goes_to(endpoints: tuple[Peer, ...], connection: Connection) -> bool:
    if not endpoints:
        return True
    chosen = peer(connection.responder)
    return chosen in endpoints or Peer(chosen.address, ANY_PORT) in endpoints


def _client(text: str) -> Prefix:
    address = parse_address(text.strip("[]"))
    prefix = network(address, family_of(address).bits) if address else parse_prefix(text)
    if prefix is None:
        raise FieldError("from", text, "it is neither an address nor a CIDR")
    return prefix


def _endpoint(text: str) -> Peer:
    host, port = split_port(text)
    address = parse_address(host.strip("[]"))
    if address is None:
        raise FieldError("endpoint", text, "it is no ADDRESS[:PORT]")
    return Peer(address, port_number(port, "endpoint", text) if port else ANY_PORT)
