"""An entry -> the desired state of the kernel for it.

There is one list of endpoints for all sources: the one that clients outside get.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kubeproxy.base.inet import Prefix, Protocol
from kubeproxy.dataplane.contract import Count
from kubeproxy.dataplane.ipvs.names import IpSet
from kubeproxy.dataplane.ipvs.settings import DEFAULT_SCHEDULER, QUIRKS
from kubeproxy.linux.netlink.ipvs import (
    PERSISTENT,
    SOURCE_PORT,
    RealKey,
    ServerKey,
    VirtualServer,
)
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, ServicePortName
from kubeproxy.table.node import NodeView
from kubeproxy.table.route import scope_of

_SOURCE_PORT_SCHEDULER = "mh"

_NODE_PORTS = {
    Protocol.TCP: (IpSet.NODE_PORT_TCP, IpSet.NODE_PORT_LOCAL_TCP),
    Protocol.UDP: (IpSet.NODE_PORT_UDP, IpSet.NODE_PORT_LOCAL_UDP),
    Protocol.SCTP: (IpSet.NODE_PORT_SCTP_HASH, IpSet.NODE_PORT_LOCAL_SCTP_HASH),
}

Member = tuple[IpSet, str]


class PlanSetup(msgspec.Struct, frozen=True):
    """What the plan depends on besides the entry.

    `own` are the node's addresses: services' addresses among them are not bound again.
    """

    scheduler: str = DEFAULT_SCHEDULER
    node_port_addresses: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()


def setup_of(node: NodeView, scheduler: str) -> PlanSetup:
    """What plans depend on, on this node."""
    own = frozenset(address for address in node.addresses if not node.is_loopback(address))
    return PlanSetup(scheduler, node.node_port_addresses(QUIRKS), own)


class Server(msgspec.Struct, frozen=True, gc=False):
    """A virtual server and its real servers."""

    virtual: VirtualServer
    reals: tuple[RealKey, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """The desired state of one service port.

    `servers` are those of its own addresses and `node_ports` those of the node's; an address that
    is bound to the device is a member of `IpSet.IPVS_IPS`. `denials` are addresses of load
    balancers that this node itself may not use.
    """

    servers: dict[ServerKey, Server] = {}
    node_ports: dict[ServerKey, Server] = {}
    members: tuple[Member, ...] = ()
    denials: tuple[ServerKey, ...] = ()

    def server_keys(self) -> tuple[ServerKey, ...]:
        """The virtual servers, of either kind."""
        return (*self.servers, *self.node_ports)

    def objects(self) -> tuple[ServerKey | Member, ...]:
        """All that the kernel has of it, but for rules."""
        return (*self.server_keys(), *self.members)


def plan(entry: Entry, setup: PlanSetup, health_check_port: int = 0) -> Part:
    """The desired state of the entry."""
    virtual = _virtual_server(entry, setup)
    reals: dict[int, tuple[RealKey, ...]] = {}  # by the identity of one of the entry's two lists
    servers: dict[ServerKey, Server] = {}
    node_ports: dict[ServerKey, Server] = {}
    for frontend in entry.frontends:
        backends = entry.backends(scope_of(entry, entry.policy(frontend.kind).outside, QUIRKS))
        if id(backends) not in reals:
            reals[id(backends)] = tuple([RealKey(b.address, b.port) for b in backends])
        server = Server(virtual, reals[id(backends)])
        held = node_ports if frontend.kind is FrontendKind.NODE_PORT else servers
        for key in _keys(entry, frontend, setup):
            held.setdefault(key, server)  # the first frontend of an address is the strictest
    members = dict.fromkeys(_members(entry, setup, health_check_port))
    return Part(servers, node_ports, tuple(members), _denials(entry))


def counts(
    entries: Iterable[Entry], setup: PlanSetup, connections: Mapping[ServerKey, int]
) -> Iterator[tuple[ServicePortName, list[Count]]]:
    """What each entry's virtual servers have counted; the first frontend of an address has it."""
    for entry in entries:
        found: dict[ServerKey, Count] = {}
        for frontend in entry.frontends:
            for key in _keys(entry, frontend, setup):
                found.setdefault(key, Count(frontend, key, connections.get(key)))
        yield entry.name, list(found.values())


def _keys(entry: Entry, frontend: Frontend, setup: PlanSetup) -> list[ServerKey]:
    """A node port has a virtual server on every address of the node that serves node ports."""
    is_node_port = frontend.kind is FrontendKind.NODE_PORT
    addresses = setup.node_port_addresses if is_node_port else (frontend.address,)
    return [ServerKey(entry.protocol, address, frontend.port) for address in addresses]


def _virtual_server(entry: Entry, setup: PlanSetup) -> VirtualServer:
    flags = PERSISTENT if entry.affinity_seconds else 0
    if setup.scheduler == _SOURCE_PORT_SCHEDULER:
        flags |= SOURCE_PORT
    return VirtualServer(setup.scheduler, flags, entry.affinity_seconds)


def _members(entry: Entry, setup: PlanSetup, health_check_port: int) -> Iterator[Member]:
    protocol = entry.protocol.name.lower()
    has_node_port = False
    for frontend in entry.frontends:
        if frontend.kind is FrontendKind.NODE_PORT:
            has_node_port = True
            yield from _node_port_members(entry, frontend.port, setup)
            continue
        if frontend.kind is FrontendKind.CLUSTER_IP or frontend.address not in setup.own:
            yield IpSet.IPVS_IPS, frontend.address
        member = f"{frontend.address},{protocol}:{frontend.port}"
        if frontend.kind is FrontendKind.CLUSTER_IP:
            yield IpSet.CLUSTER_IP, member
        elif frontend.kind is FrontendKind.EXTERNAL_IP:
            masquerade = entry.external.outside.masquerade
            yield IpSet.EXTERNAL_IP if masquerade else IpSet.EXTERNAL_IP_LOCAL, member
        else:
            yield from _load_balancer_members(entry, frontend.address, member)
    for backend in entry.here:
        yield IpSet.LOOP_BACK, f"{backend.address},{protocol}:{backend.port},{backend.address}"
    # Where upstream finds no address for node ports, it skips the health check as well.
    if health_check_port and (setup.node_port_addresses or not has_node_port):
        yield IpSet.HEALTH_CHECK_NODE_PORT, str(health_check_port)


def _load_balancer_members(entry: Entry, address: str, member: str) -> Iterator[Member]:
    yield IpSet.LOAD_BALANCER, member
    if not entry.external.outside.masquerade:
        yield IpSet.LOAD_BALANCER_LOCAL, member
    if entry.source_ranges is None:
        return
    yield IpSet.LOAD_BALANCER_FW, member
    for range_ in entry.source_ranges:
        yield IpSet.LOAD_BALANCER_SOURCE_CIDR, f"{member},{_net(range_)}"
    if entry.own_vips:
        yield IpSet.LOAD_BALANCER_SOURCE_IP, f"{member},{address}"


def _net(range_: Prefix) -> str:
    """A range as `ipset` lists it: without the length when it is one address."""
    return range_.address if range_.length == range_.family.bits else str(range_)


def _node_port_members(entry: Entry, port: int, setup: PlanSetup) -> Iterator[Member]:
    if not setup.node_port_addresses:
        return
    every, local = _NODE_PORTS[entry.protocol]
    sets = (every,) if entry.external.outside.masquerade else (every, local)
    for set_ in sets:
        if entry.protocol is Protocol.SCTP:
            yield from ((set_, f"{at},sctp:{port}") for at in setup.node_port_addresses)
        else:
            yield set_, str(port)


def _denials(entry: Entry) -> tuple[ServerKey, ...]:
    if entry.source_ranges is None or entry.own_vips:
        return ()
    return tuple(
        ServerKey(entry.protocol, frontend.address, frontend.port)
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.LOAD_BALANCER
    )
