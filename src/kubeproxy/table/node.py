"""This node, as a packet meets it: its addresses, and how the operator set the proxy up."""

from enum import Enum

import msgspec

from kubeproxy.inet import Family, Prefix, contains


class Mode(Enum):
    """How the kernel is programmed. The modes differ in a few verdicts, as upstream's do."""

    NFTABLES = "nftables"
    IPTABLES = "iptables"
    IPVS = "ipvs"


class PodCIDR(msgspec.Struct, frozen=True, tag=True):
    """Packets from this range are a pod's (detectLocalMode ClusterCIDR and NodeCIDR)."""

    prefix: Prefix

    def __str__(self) -> str:
        return f"the pod range {self.prefix}"


class PodInterface(msgspec.Struct, frozen=True, tag=True):
    """Packets that enter here are a pod's (BridgeInterface, InterfaceNamePrefix)."""

    name: str
    prefix: bool = False

    def __str__(self) -> str:
        return f"interfaces {self.name}*" if self.prefix else f"interface {self.name}"


Detector = PodCIDR | PodInterface

LOOPBACK = {
    Family.IPV4: Prefix("127.0.0.0", 8),
    Family.IPV6: Prefix("::1", 128),
}
_LINK_LOCAL = Prefix("fe80::", 10)


class Node(msgspec.Struct, frozen=True):
    """One family of this node.

    `addresses` are those of all interfaces. `node_port_ranges` are the accepted ranges: empty
    accepts node ports nowhere. `localhost_node_ports` is iptables mode's switch, and
    `localhost_gate` nftables mode's feature gate.
    """

    family: Family
    addresses: tuple[str, ...] = ()
    detector: Detector | None = None
    masquerade_all: bool = False
    node_port_ranges: tuple[Prefix, ...] = ()
    service_cidrs: tuple[Prefix, ...] = ()
    localhost_node_ports: bool = True
    localhost_gate: bool = False

    def is_loopback(self, address: str) -> bool:
        """Whether the address is the family's loopback."""
        return contains(LOOPBACK[self.family], address)

    def is_own(self, address: str) -> bool:
        """Whether the address is one of this node's, loopback included."""
        return address in self.addresses or self.is_loopback(address)

    def accepts_node_ports(self, address: str, mode: Mode) -> bool:
        """Whether node ports are served on the address."""
        if not self.is_own(address):
            return False
        if not any(contains(range_, address) for range_ in self.node_port_ranges):
            return False
        if self.is_loopback(address):
            ipv4 = self.family is Family.IPV4
            return mode is Mode.IPTABLES and ipv4 and self.localhost_node_ports
        return not (mode is Mode.IPVS and contains(_LINK_LOCAL, address))

    def node_port_addresses(self, mode: Mode) -> tuple[str, ...]:
        """The addresses of this node on which node ports are served."""
        return tuple(a for a in self.addresses if self.accepts_node_ports(a, mode))

    def serves_loopback_by_proxy(self) -> bool:
        """Whether nftables mode proxies TCP node ports of the loopback address itself.

        Only a range inside the loopback network asks for it: 0.0.0.0/0 does not.
        """
        loopback = LOOPBACK[self.family]
        return self.localhost_gate and any(
            contains(loopback, range_.address) and range_.length >= loopback.length
            for range_ in self.node_port_ranges
        )
