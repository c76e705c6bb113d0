"""The configuration and our Node -> this node, as packets meet it. Functions on values only."""

from msgspec.structs import replace

from kubeproxy.base.healing import parse_healing
from kubeproxy.base.inet import Family, Prefix, family_of, pack, parse_address, parse_prefix
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS, Gates
from kubeproxy.config.nodeports import expand
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import Detector, NodeView, PodCIDR, PodInterface

LOOPBACK_IP = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}
EVERYTHING = {
    Family.IPV4: Prefix("0.0.0.0", 0),  # noqa: S104  # a prefix, not an address to bind
    Family.IPV6: Prefix("::", 0),
}


def with_bind_address(node: NodeState | None, bind_address: str) -> NodeState:
    """Our Node, with the bind address first if it is one; no Node is one without addresses."""
    node = node or NodeState("")
    bound = parse_address(bind_address)
    if bound is None or not any(pack(bound)):
        return node
    return replace(node, ips=tuple(dict.fromkeys((bound, *node.ips))))


def primary_family(node: NodeState) -> Family:
    """The family of the first address."""
    return family_of(node.ips[0]) if node.ips else Family.IPV4


def node_ips(node: NodeState) -> dict[Family, str]:
    """Our address in each family, as far as known: a loopback address says nothing."""
    found = {family: node.ip(family) for family in Family}
    return {family: ip for family, ip in found.items() if ip not in {None, LOOPBACK_IP[family]}}


def known_addresses(node: NodeState) -> dict[Family, tuple[str, ...]]:
    """The node's addresses where its interfaces cannot be asked: those of its Node, loopback."""
    return {
        family: tuple(
            sorted(ip for ip in {*node.ips, LOOPBACK_IP[family]} if family_of(ip) is family)
        )
        for family in Family
    }


def detector(config: KubeProxyConfiguration, node: NodeState, family: Family) -> Detector | None:
    """How pods are distinguished from others in the family; None when they cannot be."""
    match config.detect_local_mode:
        case LocalMode.CLUSTER_CIDR.value:
            return _first(config.cluster_cidrs, family)
        case LocalMode.NODE_CIDR.value:
            return _first(node.pod_cidrs, family)
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
    config: KubeProxyConfiguration, node: NodeState, family: Family
) -> tuple[Prefix, ...]:
    """Where node ports are served.

    Upstream serves them on every address of a family that the list does not mention. The list
    says where node ports are wanted: here that family serves none.
    """
    if not config.node_port_addresses:
        return (EVERYTHING[family],)
    expanded = expand(config.node_port_addresses, node_ips(node))
    return tuple(prefix for prefix in expanded if prefix.family is family)


def node_view(
    config: KubeProxyConfiguration, gates: Gates, family: Family, node: NodeState
) -> NodeView:
    """One family of this node; its own addresses and the service ranges are not known here."""
    return NodeView(
        family=family,
        detector=detector(config, node, family),
        masquerade_all=config.masquerade_all,
        node_port_ranges=node_port_ranges(config, node, family),
        localhost_node_ports=config.iptables.localhost_node_ports,
        localhost_gate=gates.enabled(NFTABLES_LOCALHOST_NODE_PORTS),
        name=node.name,
        zone=node.zone,
        ip=node_ips(node).get(family),
        balance=Balance(config.nftables.balance),
        healing=parse_healing(config.nftables.healing.parts),
    )
