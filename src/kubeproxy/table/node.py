"""This node, as far as packets depend on it: its addresses, and the operator's settings."""

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Prefix, Protocol, contains
from kubeproxy.table.entries import Balance
from kubeproxy.table.policy import Masquerading
from kubeproxy.table.quirks import Loopback, Quirks


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


class NodeView(msgspec.Struct, frozen=True):
    """One family of this node.

    `addresses` are those of all interfaces. `node_port_ranges` are the accepted ranges: empty
    accepts node ports nowhere. `localhost_node_ports` is iptables mode's switch, and
    `localhost_gate` nftables mode's feature gate. `zone` and `ip` are those of its Node object.
    `balance` is how an endpoint is chosen, and `healing` what is done about endpoints that fail,
    when a Service does not say.
    """

    family: Family
    addresses: tuple[str, ...] = ()
    detector: Detector | None = None
    masquerade_all: bool = False
    node_port_ranges: tuple[Prefix, ...] = ()
    service_cidrs: tuple[Prefix, ...] = ()
    localhost_node_ports: bool = True
    localhost_gate: bool = False
    name: str = ""
    zone: str = ""
    ip: str | None = None
    balance: Balance = Balance.RANDOM
    healing: Healing = Healing.NONE

    def is_loopback(self, address: str) -> bool:
        """Whether the address is the family's loopback."""
        return contains(LOOPBACK[self.family], address)

    def is_own(self, address: str) -> bool:
        """Whether the address is one of this node's, loopback included."""
        return address in self.addresses or self.is_loopback(address)

    @property
    def masquerading(self) -> Masquerading:
        """Whose source address is rewritten on the way to a cluster IP."""
        if self.masquerade_all:
            return Masquerading.ALWAYS
        return Masquerading.NEVER if self.detector is None else Masquerading.UNLESS_POD

    def accepts_node_ports(self, address: str, quirks: Quirks) -> bool:
        """Whether node ports are served on the address."""
        if not self.is_own(address):
            return False
        if not any(contains(range_, address) for range_ in self.node_port_ranges):
            return False
        if self.is_loopback(address):
            by_proxy = quirks.loopback_node_ports is Loopback.PROXY
            return not by_proxy and self.serves_loopback(quirks)
        return quirks.link_local_node_ports or not contains(_LINK_LOCAL, address)

    def node_port_addresses(self, quirks: Quirks) -> tuple[str, ...]:
        """The addresses of this node on which node ports are served."""
        return tuple(a for a in self.addresses if self.accepts_node_ports(a, quirks))

    def opens_node_ports(self, quirks: Quirks, protocol: Protocol) -> bool:
        """Whether there can be an address on which node ports of the protocol are served.

        Not without accepted ranges, nor where all of them are loopback and that is not served.
        """
        if len(self.loopback_ranges) < len(self.node_port_ranges):
            return True
        if quirks.loopback_node_ports is Loopback.PROXY and protocol is not Protocol.TCP:
            return False
        return bool(self.loopback_ranges) and self.serves_loopback(quirks)

    @property
    def loopback_ranges(self) -> tuple[Prefix, ...]:
        """The accepted ranges that have loopback addresses only, unlike 0.0.0.0/0."""
        loopback = LOOPBACK[self.family]
        return tuple(
            range_
            for range_ in self.node_port_ranges
            if contains(loopback, range_.address) and range_.length >= loopback.length
        )

    def serves_loopback(self, quirks: Quirks) -> bool:
        """Whether the mode can serve node ports on loopback addresses as this node is set up."""
        by_kernel = self.family is Family.IPV4 and self.localhost_node_ports
        return {
            Loopback.NONE: False,
            Loopback.KERNEL: by_kernel,
            Loopback.REDIRECT: True,
            Loopback.PROXY: self.localhost_gate,
        }[quirks.loopback_node_ports]

    def serves_loopback_by_proxy(self) -> bool:
        """Whether the proxy itself serves TCP node ports on the loopback address.

        Only a range inside the loopback network enables it: 0.0.0.0/0 does not.
        """
        return self.localhost_gate and bool(self.loopback_ranges)
