"""The network of the lab: kestrel in the middle, everybody else on a wire of their own.

Neighbours are static and duplicate addresses are not looked for, so that the first packet can be
sent the moment the network is up.
"""

import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Callable, Iterator

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace
from lab.plan import CROWD, FAR_AWAY, KESTREL, PROBE_PORTS, UPLINK, WIRED, Host
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
    # The kernel would send only a few errors a second.
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/icmp/ratemask", "127"),  # the types that are limited: none that occurs
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
_NETLINK_NETFILTER = 12
_FLUSH_FLOWS = struct.pack(
    "=IHHIIBBH",
    *(20, 0x102, 5, 0, 0),  # a request that is answered: delete, of the connection tracker
    *(0, 0, 0),  # of all families
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
            namespace.sysctl(_EVERYWHERE)
        self.node.sysctl(_ROUTER)
        self.namespaces["X"].sysctl(_MANY_ADDRESSES)
        _batch(self.node, _kestrel(prefix))
        for number, (name, hosts) in enumerate(WIRED.items()):
            _batch(self.namespaces[name], _far_end(number, hosts))
        self.cpu = _cpu()
        self.reset_connections: Callable[[], None] = lambda: None
        """Has the responders, once there are some, reset all their connections."""
        self._ports: dict[str, Iterator[int]] = {}

    @property
    def node(self) -> Namespace:
        """Kestrel's namespace."""
        return self.namespaces[KESTREL]

    def of(self, host: Host) -> Namespace:
        """The namespace of a host."""
        return self.namespaces[host.namespace]

    def fresh_ports(self, address: str) -> Iterator[int]:
        """Ports for an address to send from, which were not used for as long as possible.

        All who dial in this network share them: with an old port, what the tracker or an endpoint
        still knows of an old connection would decide about a new one.
        """
        return self._ports.setdefault(address, itertools.cycle(PROBE_PORTS))

    def forget_connections(self) -> None:
        """Have endpoints and kestrel's connection tracker forget all connections.

        An endpoint whose client is gone unnoticed would keep its end for ever, and answer a new
        client that is masqueraded to the same port as if it were the old one.
        """
        self.reset_connections()
        with (
            self.node.entered(),
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as link,
        ):
            link.send(_FLUSH_FLOWS)
            link.recv(4096)  # it is done, or there is no tracker yet

    @contextlib.contextmanager
    def on_one_cpu(self) -> Iterator[None]:
        """Inside, this thread runs on the processor that handles this network's packets."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cpu})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

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


def _cpu() -> int:
    """One processor for each worker of the test run, as far as they go."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[worker % len(cpus)]


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
