"""The network of the lab: kestrel in the middle, everybody else on a wire of their own.

Neighbours are static and nobody probes for duplicate addresses, so that the first packet flies
the moment the network stands.
"""

import contextlib
from collections.abc import Iterator

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace
from lab.plan import CROWD, FAR_AWAY, HAS_SCTP, KESTREL, UPLINK, WIRED, Host
from world import NODE_ADDRESSES

_GATEWAYS = ("169.254.1.1", "fe80::1")
"""Next hops that exist as static neighbours only."""

_EVERYWHERE = (
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/ping_group_range", "0 0"),
    # Refusals are answers here; the kernel would swallow all but a few a second.
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/icmp/ratemask", "127"),  # the types that are limited: none that occurs
)
_SCTP = (
    # A refusal that comes before the call returns is not heard: the next attempt's is.
    ("sctp/rto_min", "200"),
    ("sctp/rto_initial", "200"),
)
_ROUTER = (
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
)
_MANY_ADDRESSES = (
    ("ipv4/ip_nonlocal_bind", "1"),
    ("ipv6/ip_nonlocal_bind", "1"),
)
_HELD = {
    "W": (*FAR_AWAY[Family.IPV4], *FAR_AWAY[Family.IPV6]),
    "X": tuple(CROWD.values()),
}
"""Ranges of which a namespace has every address."""


class Network:
    """The namespaces by name, with everything wired up.

    A second network beside the first needs a prefix for the names by which `ip` knows them.
    """

    def __init__(self, prefix: str = "") -> None:
        self.namespaces = {name: Namespace(prefix + name) for name in (KESTREL, *WIRED)}
        for namespace in self.namespaces.values():
            namespace.sysctl((*_EVERYWHERE, *(_SCTP if HAS_SCTP else ())))
        self.node.sysctl(_ROUTER)
        self.namespaces["X"].sysctl(_MANY_ADDRESSES)
        _batch(self.node, _kestrel(prefix))
        for number, (name, hosts) in enumerate(WIRED.items()):
            _batch(self.namespaces[name], _far_end(number, hosts))

    @property
    def node(self) -> Namespace:
        """Kestrel's namespace."""
        return self.namespaces[KESTREL]

    def of(self, host: Host) -> Namespace:
        """The namespace of a host."""
        return self.namespaces[host.namespace]

    def close(self) -> None:
        """Take everything down."""
        for namespace in self.namespaces.values():
            namespace.close()

    @contextlib.contextmanager
    def node_address(self, address: str) -> Iterator[None]:
        """One more address of kestrel, for a while."""
        self.node.run(["ip", "address", "add", address, "dev", UPLINK, *_no_probes(address)])
        try:
            yield
        finally:
            self.node.run(["ip", "address", "del", address, "dev", UPLINK])


def _batch(namespace: Namespace, lines: Iterator[str]) -> None:
    namespace.run(["ip", "-batch", "-"], stdin="\n".join(lines))


def _no_probes(address: str) -> list[str]:
    return ["nodad"] if ":" in address else []


def _macs(number: int) -> tuple[str, str]:
    """The hardware addresses of a wire: kestrel's end, the other end."""
    return f"02:00:00:00:01:{number:02x}", f"02:00:00:00:02:{number:02x}"


def _kestrel(prefix: str) -> Iterator[str]:
    yield "link set lo up"
    for number, (name, hosts) in enumerate(WIRED.items()):
        here, there = _macs(number)
        wire = hosts[0].interface
        yield (
            f"link add name {wire} address {here} type veth "
            f"peer name eth0 address {there} netns {prefix}{name}"
        )
        yield f"link set {wire} addrgenmode none"
        yield f"link set {wire} up"
        for address in (host.address(family) for host in hosts for family in Family):
            yield f"route add {address} dev {wire}"
            yield f"neigh add {address} lladdr {there} dev {wire} nud permanent"
    for family in Family:
        for address in NODE_ADDRESSES[family][1:]:
            yield f"address add {address} dev {UPLINK} {' '.join(_no_probes(address))}"
        world, outside = WIRED["W"][0], WIRED["X"][0]
        yield f"route add default via {world.address(family)} dev {UPLINK}"
        crowd = f"{CROWD[family]} via {outside.address(family)} dev {outside.interface}"
        yield f"route add {crowd}"


def _far_end(number: int, hosts: tuple[Host, ...]) -> Iterator[str]:
    here, _ = _macs(number)
    yield "link set lo up"
    yield "link set eth0 addrgenmode none"
    yield "link set eth0 up"
    for address in (host.address(family) for host in hosts for family in Family):
        yield f"address add {address} dev eth0 {' '.join(_no_probes(address))}"
    for gateway in _GATEWAYS:
        yield f"neigh add {gateway} lladdr {here} dev eth0 nud permanent"
        yield f"route add default via {gateway} dev eth0 onlink"
    for prefix in _HELD.get(hosts[0].namespace, ()):
        yield f"route add local {prefix} dev lo"
