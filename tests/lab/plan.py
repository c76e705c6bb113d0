"""The address plan of the lab: that of `world`, with IPv6 twins, and who sits where.

Every host has a namespace of its own and one wire, to kestrel. So every packet passes kestrel,
replies to a client whose address was kept included: whatever a dataplane does to a packet can be
seen, also where a real network would lose the reply.
"""

import socket

import msgspec

import world
from kubeproxy.base.inet import Family, Protocol

KESTREL = "kestrel"
"""The namespace of this node: the dataplane runs here."""
PODS = "pod-"
"""How the names of the interfaces of kestrel's pods begin."""
UPLINK = "eth0"
"""The interface with kestrel's own addresses, and its default route."""


class Host(msgspec.Struct, frozen=True):
    """A host with an address: the namespace, and the interface of kestrel that leads there."""

    name: str
    namespace: str
    interface: str
    ipv4: str
    ipv6: str

    def address(self, family: Family) -> str:
        return self.ipv4 if family is Family.IPV4 else self.ipv6


_WIRED = (
    Host("L1", "L1", "pod-l1", "10.64.3.11", "fd40::11"),
    Host("L2", "L2", "pod-l2", "10.64.3.12", "fd40::12"),
    Host("L3", "L3", "pod-l3", "10.64.3.13", "fd40::13"),
    Host("P", "P", "pod-p", "10.64.3.50", "fd40::50"),
    Host("R1", "R1", "eth-r1", "10.65.7.21", "fd40:0:0:1::21"),
    Host("R2", "R2", "eth-r2", "10.66.9.31", "fd40:0:0:2::31"),
    Host("Q", "Q", "eth-q", "10.65.7.99", "fd40:0:0:1::99"),
    Host("X", "X", "eth-x", "192.0.2.50", "2001:db8:ff::50"),
    Host("Y", "X", "eth-x", "192.0.2.200", "2001:db8:ff::200"),
    Host("W", "W", UPLINK, "198.51.100.1", "2001:db8:aa::1"),
)
"""L1 to L3 and P are pods of kestrel, R1 and Q of heron, R2 of merlin; P and Q are no endpoints.

X and Y are outside. W is the world behind the default route: whoever kestrel sends on untouched
arrives there, and W answers for every service address.
"""
HOSTS = {
    host.name: host
    for host in (
        *_WIRED,
        Host("H", KESTREL, "", world.NODE_IP[Family.IPV4], world.NODE_IP[Family.IPV6]),
        Host("LO", KESTREL, "", "127.0.0.1", "::1"),
    )
}
WIRED = {
    name: tuple(host for host in _WIRED if host.namespace == name)
    for name in dict.fromkeys(host.namespace for host in _WIRED)
}
"""The hosts of each namespace but kestrel's."""
NODE_NAME_OF = {
    "L1": "kestrel",
    "L2": "kestrel",
    "L3": "kestrel",
    "H": "kestrel",
    "R1": "heron",
    "R2": "merlin",
}
"""The endpoints, and their nodes. H is an endpoint with the host's network."""

CLUSTER_CIDR = {Family.IPV4: "10.64.0.0/14", Family.IPV6: "fd40::/48"}
POD_CIDR = {Family.IPV4: "10.64.3.0/24", Family.IPV6: "fd40::/64"}
SERVICE_CIDR = {Family.IPV4: "10.112.0.0/16", Family.IPV6: "fd12::/108"}
UNALLOCATED = {Family.IPV4: "10.112.0.77", Family.IPV6: "fd12::77"}
_STEM = {
    "cluster": {Family.IPV4: "10.112.0.", Family.IPV6: "fd12::"},
    "balancer": {Family.IPV4: "203.0.113.", Family.IPV6: "2001:db8:1b::"},
    "external": {Family.IPV4: "198.18.0.", Family.IPV6: "2001:db8:e::"},
}
FAR_AWAY = {
    Family.IPV4: (SERVICE_CIDR[Family.IPV4], "203.0.113.0/24", "198.18.0.0/15"),
    Family.IPV6: (SERVICE_CIDR[Family.IPV6], "2001:db8:1b::/64", "2001:db8:e::/64"),
}
"""What W answers for."""
CROWD_SIZE = 60
CROWD = {Family.IPV4: "192.0.2.64/26", Family.IPV6: "2001:db8:ff:64::/64"}
"""More clients from outside: addresses that X can send from."""

ENDPOINT_PORTS = (53, 5353, 8080, 8081, 8443)
"""Where endpoints listen, with every protocol."""
HOST_PORTS = tuple(range(31080, 31090))
"""Node ports on which a process of the host listens: it answers when the proxy lets pass."""
WORLD_PORTS = (7, 53, 80, 81, 443)
"""Where W listens. Port 7 is never a service's."""
UNDEFINED_PORT = 7
SENTINEL_PORT = 32990
"""Where every namespace answers sentinels; the next one is where they come from."""
PROBE_PORTS = range(33000, 65000)
"""Where probes come from: above the node ports."""


def _protocols() -> tuple[Protocol, ...]:
    """Those that this kernel speaks: not every one has SCTP."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM, Protocol.SCTP).close()
    except OSError:
        return Protocol.TCP, Protocol.UDP
    return tuple(Protocol)


PROTOCOLS = _protocols()
HAS_SCTP = Protocol.SCTP in PROTOCOLS


def cluster_ip(number: int, family: Family = Family.IPV4) -> str:
    return f"{_STEM['cluster'][family]}{number}"


def vip(number: int, family: Family = Family.IPV4) -> str:
    return f"{_STEM['balancer'][family]}{number}"


def external_ip(number: int, family: Family = Family.IPV4) -> str:
    return f"{_STEM['external'][family]}{number}"


def crowd(number: int, family: Family = Family.IPV4) -> str:
    """The address of one of the crowd."""
    return f"192.0.2.{64 + number}" if family is Family.IPV4 else f"2001:db8:ff:64::{number}"


def stems() -> tuple[tuple[str, str], ...]:
    """How the addresses of services begin in IPv4, and how their twins begin in IPv6."""
    return tuple((stem[Family.IPV4], stem[Family.IPV6]) for stem in _STEM.values())
