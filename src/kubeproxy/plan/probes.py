"""The packets that are asked about: who dials what, on both sides.

A probe has a packet for each side, for the node itself sends from another address where it has the
addresses of services as its own.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec

from kubeproxy.base.inet import Prefix, Protocol, pack, unpack
from kubeproxy.plan.clients import (
    Client,
    clients_at_boundaries,
    endpoints_themselves,
    usual_clients,
)
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import Entry, FrontendKey, FrontendKind, Table
from kubeproxy.table.node import LOOPBACK, NodeView
from kubeproxy.table.quirks import Loopback, Quirks

_TRIES: Final = 1000
_OTHER_PORTS: Final = (7, 9, 13, 17, 19, 1, 2, 3)
LOOPBACK_CLIENT: Final = "this node, by its loopback address"
SECOND_LOOPBACK: Final = "127.0.0.2"


class Place(Enum):
    """What kind of destination a probe has."""

    CLUSTER_IP = FrontendKind.CLUSTER_IP.value
    LOAD_BALANCER = FrontendKind.LOAD_BALANCER.value
    EXTERNAL_IP = FrontendKind.EXTERNAL_IP.value
    NODE_PORT = FrontendKind.NODE_PORT.value
    PING = "ping"
    OTHER_PORT = "ports that no Service has"
    UNALLOCATED = "service addresses that no Service has"


class View(msgspec.Struct, frozen=True):
    """One family of one side."""

    table: Table
    node: NodeView
    quirks: Quirks


class Probe(msgspec.Struct, frozen=True):
    """A packet on either side. `at` is its destination as a text, `more` how many are like it."""

    client: str
    place: Place
    at: str
    before: Packet
    after: Packet
    more: int = 0


Views = tuple[View, View]


def entry_probes(
    views: Views, entries: tuple[Entry | None, Entry | None], placeless: frozenset[str]
) -> Iterator[Probe]:
    """Every client at every frontend that a service port has on either side."""
    known = [entry for entry in entries if entry is not None]
    nodes = [view.node for view in views]
    avoid = frozenset(
        backend.address for entry in known for backend in (*entry.cluster, *entry.local)
    )
    same = views[0].quirks == views[1].quirks
    clients = usual_clients(nodes, avoid)
    endpoints = endpoints_themselves(known, placeless, same_rules=same)
    ranged = clients_at_boundaries(known, nodes)
    if ranged:  # they stand for all clients whose address alone says what they are
        by_address = [each for each in clients if each.own or each.interface]
        ranged = [*by_address, *endpoints, *ranged]
    for kind, key in dict.fromkeys((f.kind, e.key(f)) for e in known for f in e.frontends):
        if kind is FrontendKind.NODE_PORT:
            yield from _node_port(views, key, [*clients, *endpoints])
        else:
            is_ranged = ranged and kind is FrontendKind.LOAD_BALANCER
            senders = ranged if is_ranged else [*clients, *endpoints]
            yield from (_probe(views, each, Place(kind.value), key) for each in senders)


def address_probes(views: Views, addresses: Iterable[str]) -> Iterator[Probe]:
    """What addresses of services get besides their ports: pings, and other ports."""
    clients = usual_clients([view.node for view in views], frozenset())
    for address in addresses:
        for port in _unused(views, address):
            key = FrontendKey(address, Protocol.TCP, port)
            yield from (_probe(views, each, Place.OTHER_PORT, key) for each in clients)
        for client in clients:
            one, other = (_source(view, client, address) for view in views)
            yield Probe(
                client.name,
                Place.PING,
                address,
                Packet(one, address, None, 0, client.interface),
                Packet(other, address, None, 0, client.interface),
            )


def unallocated_probes(views: Views) -> Iterator[Probe]:
    """An address of each service range that no Service has, on either side."""
    clients = usual_clients([view.node for view in views], frozenset())
    for cidr in dict.fromkeys(cidr for view in views for cidr in view.node.service_cidrs):
        address = free_address(
            cidr, {*views[0].table.cluster_ips(), *views[1].table.cluster_ips()}
        )
        key = FrontendKey(address, Protocol.TCP, _OTHER_PORTS[0])
        for client in clients if address else ():
            probe = _probe(views, client, Place.UNALLOCATED, key)
            yield msgspec.structs.replace(probe, at=f"such as {address}")


def _unused(views: Views, address: str) -> Iterator[int]:
    """A port that no Service has at the address, nor as a node port."""
    for port in _OTHER_PORTS:
        keys = [FrontendKey(each, Protocol.TCP, port) for each in (address, "")]
        if not any(view.table.find(key) for view in views for key in keys):
            yield port
            return


def _node_port(views: Views, key: FrontendKey, clients: Sequence[Client]) -> Iterator[Probe]:
    """A node port on each kind of address that this node has."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for address in dict.fromkeys((*views[0].node.addresses, *views[1].node.addresses)):
        if not views[1].node.is_loopback(address):
            alike.setdefault(_kind_of(views, address), []).append(address)
    for addresses in alike.values():
        at = FrontendKey(addresses[0], key.protocol, key.port)
        for client in clients:
            probe = _probe(views, client, Place.NODE_PORT, at)
            yield msgspec.structs.replace(probe, more=len(addresses) - 1)
    for address in _loopbacks(views):
        at = FrontendKey(address, key.protocol, key.port)
        yield _probe(views, Client(LOOPBACK_CLIENT, address), Place.NODE_PORT, at)


def _loopbacks(views: Views) -> Iterator[str]:
    """The usual loopback address; and another one, where only some of them serve node ports."""
    if ":" in LOOPBACK[views[0].node.family].address:
        yield "::1"
        return
    yield "127.0.0.1"
    if len({view.quirks.loopback_node_ports for view in views} - {Loopback.NONE}) > 1:
        yield SECOND_LOOPBACK


def _kind_of(views: Views, address: str) -> tuple[object, ...]:
    """What tells addresses of the node apart, for a node port."""
    serves = [view.node.accepts_node_ports(address, view.quirks) for view in views]
    own = [view.node.is_own(address) for view in views]
    claimed = any(view.table.is_service_ip(address) for view in views)
    return (*serves, *own, address if claimed else "")


def _probe(views: Views, client: Client, place: Place, key: FrontendKey) -> Probe:
    one, other = (_source(view, client, key.address) for view in views)
    return Probe(
        client.name,
        place,
        str(key),
        Packet(one, key.address, key.protocol, key.port, client.interface),
        Packet(other, key.address, key.protocol, key.port, client.interface),
    )


def _source(view: View, client: Client, destination: str) -> str:
    """The address that a client sends from: the node uses the one it dials, if that is its own."""
    if not client.own:
        return client.address
    if view.node.is_own(destination):
        return destination
    is_bound = view.quirks.binds_addresses and view.table.is_service_ip(destination)
    return destination if is_bound else client.address


def free_address(cidr: Prefix, used: Container[str]) -> str:
    """The last address of a service range that is not used; "" when it is full, as it looks."""
    packed = pack(cidr.address)
    first = int.from_bytes(packed, "big")
    last = first + (1 << (8 * len(packed) - cidr.length)) - 1
    numbers = range(last - 1, max(first, last - _TRIES), -1)
    every = (unpack(number.to_bytes(len(packed), "big")) for number in numbers)
    return next((each for each in every if each not in used), "")
