"""The configuration and our Node -> this node, as packets meet it. Functions on values only."""

from collections.abc import Mapping

import msgspec

from kubeproxy.base.inet import Family, Prefix, family_of, pack, parse_address, parse_prefix
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS, Gates
from kubeproxy.config.nodeports import expand
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.table.node import Detector, Node, PodCIDR, PodInterface

LOOPBACK_IP = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}
EVERYTHING = {
    Family.IPV4: Prefix("0.0.0.0", 0),  # noqa: S104  # a prefix, not an address to bind
    Family.IPV6: Prefix("::", 0),
}


class NodeIPs(msgspec.Struct, frozen=True):
    """Our address in each family, and the family that comes first.

    A family whose address is not known has its loopback address as a placeholder.
    """

    primary: Family
    ips: Mapping[Family, str]

    @property
    def known(self) -> bool:
        """Whether the address of the primary family is known."""
        return self.ips[self.primary] != LOOPBACK_IP[self.primary]

    def known_ip(self, family: Family) -> str | None:
        """The address of the family, when it is known."""
        ip = self.ips[family]
        return None if ip == LOOPBACK_IP[family] else ip


def node_ips(node: NodeState | None, bind_address: str) -> NodeIPs:
    """Our addresses: the Node's, unless a bind address stands for one of them."""
    listed = node.ips if node else ()
    ips = dict(LOOPBACK_IP)
    for ip in reversed(listed):
        ips[family_of(ip)] = ip
    primary = family_of(listed[0]) if listed else Family.IPV4
    bound = parse_address(bind_address)
    if bound is not None and any(pack(bound)):
        primary = family_of(bound)
        ips[primary] = bound
    return NodeIPs(primary, ips)


def detector(
    config: KubeProxyConfiguration, node: NodeState | None, family: Family
) -> Detector | None:
    """How pods are told from others in the family; None when they cannot be."""
    match config.detect_local_mode:
        case LocalMode.CLUSTER_CIDR.value:
            return _first(config.cluster_cidrs, family)
        case LocalMode.NODE_CIDR.value:
            return _first(node.pod_cidrs if node else (), family)
        case LocalMode.BRIDGE_INTERFACE.value:
            return PodInterface(config.detect_local.bridge_interface)
        case _:
            return PodInterface(config.detect_local.interface_name_prefix, prefix=True)


def _first(cidrs: tuple[str, ...], family: Family) -> PodCIDR | None:
    for text in cidrs:
        prefix = parse_prefix(text)
        if prefix is not None and prefix.family is family:
            return PodCIDR(prefix)
    return None


def node_port_ranges(
    config: KubeProxyConfiguration, ips: NodeIPs, family: Family
) -> tuple[Prefix, ...]:
    """Where node ports are served.

    Upstream serves them on every address of a family that the list does not mention. The list
    says where node ports are wanted: here that family serves none.
    """
    if not config.node_port_addresses:
        return (EVERYTHING[family],)
    expanded = expand(config.node_port_addresses, ips.ips)
    return tuple(prefix for prefix in expanded if prefix.family is family)


class Surroundings(msgspec.Struct, frozen=True):
    """What changes while the daemon runs: our Node, our interfaces, the service ranges."""

    node: NodeState | None
    ips: NodeIPs
    addresses: tuple[str, ...]
    service_cidrs: tuple[Prefix, ...] = ()


def node_view(
    config: KubeProxyConfiguration, gates: Gates, family: Family, around: Surroundings
) -> Node:
    """One family of this node, as packets meet it."""
    return Node(
        family=family,
        addresses=around.addresses,
        detector=detector(config, around.node, family),
        masquerade_all=config.masquerade_all,
        node_port_ranges=node_port_ranges(config, around.ips, family),
        service_cidrs=around.service_cidrs,
        localhost_node_ports=config.iptables.localhost_node_ports,
        localhost_gate=gates.enabled(NFTABLES_LOCALHOST_NODE_PORTS),
    )
