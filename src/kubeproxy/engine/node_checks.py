"""Our Node against the configuration: what to say at the start, what ends the run later.

Functions on values only.
"""

from collections.abc import Iterator

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState, primary_ips
from kubeproxy.config.errors import Level, Notice
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS, Gates
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.config.warnings import NodeFacts, family_warnings, node_port_warnings
from kubeproxy.engine.node import NodeIPs, Surroundings, detector, node_ips, node_view
from kubeproxy.table.node import QUIRKS, Mode, Node


def by_node_cidr(config: KubeProxyConfiguration) -> bool:
    """Whether pods are told from others by the pod ranges of our Node."""
    return config.detect_local_mode == LocalMode.NODE_CIDR.value


def start_notices(
    config: KubeProxyConfiguration,
    gates: Gates,
    families: tuple[Family, ...],
    node: NodeState | None,
) -> Iterator[Notice]:
    """What an operator should know before the proxy starts on this node.

    Raises an `OperatorError` where nothing could work.
    """
    ips = node_ips(node, config.bind_address)
    if node and node.ips:
        listed = {"NodeIPs": list(primary_ips(node))}
        yield Notice(Level.INFO, "Successfully retrieved NodeIPs", listed)
    if not ips.known:
        yield Notice(
            Level.INFO,
            "Can't determine this node's IP, assuming loopback; if this is incorrect, please"
            " set the --bind-address flag",
        )
    if ips.primary not in families:
        raise OperatorError(
            f'no support for primary IP family "{ips.primary.value}" on this machine; check that'
            " its kernel has it, that no sysctl disables it, and --bind-address"
        )
    facts = NodeFacts(
        primary=ips.primary,
        node_ips=ips.ips,
        pod_cidrs=node.pod_cidrs if node else (),
        dual_stack=len(families) > 1,
    )
    yield from node_port_warnings(config, facts)
    for family in families:
        view = node_view(config, gates, family, Surroundings(node, ips, ()))
        yield from _unserved_loopback(view, Mode(config.mode))
    yield _stack(facts)
    yield from family_warnings(config, facts)
    yield from _missing_detector(config, node, ips)


def _unserved_loopback(node: Node, mode: Mode) -> Iterator[Notice]:
    """Whether node ports are asked for on loopback addresses, in vain."""
    asked = node.loopback_ranges
    if not asked or node.serves_loopback(QUIRKS[mode]):
        return
    where = "those" if len(asked) < len(node.node_port_ranges) else f"any {node.family.value} IP"
    pairs = {
        "address": list(map(str, asked)),
        "effect": f"NodePort connections will not be accepted on {where}",
    }
    yield Notice(Level.ERROR, _why_loopback_is_not_served(mode, node.family), pairs)


def _why_loopback_is_not_served(mode: Mode, family: Family) -> str:
    """The reason; for iptables mode it is upstream's text."""
    match mode:
        case Mode.NFTABLES:
            why = f"nftables mode needs the feature gate {NFTABLES_LOCALHOST_NODE_PORTS} for that"
        case Mode.IPTABLES if family is Family.IPV4:
            why = "--iptables-localhost-nodeports=false was passed"
        case Mode.IPTABLES:
            why = "localhost NodePorts are not supported on IPv6"
        case _:
            why = "localhost NodePorts are not supported in ipvs mode"
    return f"--nodeport-addresses includes localhost but {why}"


def _stack(facts: NodeFacts) -> Notice:
    family = facts.primary.value
    if facts.dual_stack:
        return Notice(
            Level.INFO, "kube-proxy running in dual-stack mode", {"primary ipFamily": family}
        )
    return Notice(Level.INFO, "kube-proxy running in single-stack mode", {"ipFamily": family})


def _missing_detector(
    config: KubeProxyConfiguration, node: NodeState | None, ips: NodeIPs
) -> Iterator[Notice]:
    """Whether pods of the primary family cannot be told from others."""
    if detector(config, node, ips.primary) is not None:
        return
    family = ips.primary.value
    if by_node_cidr(config):
        yield Notice(
            Level.INFO,
            "Detect-local-mode set to NodeCIDR, but no PodCIDR defined at node for primary IP"
            " family",
            {"ipFamily": family, "podCIDRs": list(node.pod_cidrs) if node else []},
        )
    else:
        yield Notice(
            Level.INFO,
            "Detect-local-mode set to ClusterCIDR, but no cluster CIDR specified for primary IP"
            " family",
            {"ipFamily": family, "clusterCIDRs": list(config.cluster_cidrs)},
        )


def restart_reason(
    before: NodeState | None, now: NodeState | None, config: KubeProxyConfiguration
) -> str:
    """Why a changed Node calls for a restart; "" when it does not."""
    if now is None:
        return "" if before is None else "it is being deleted"
    old_ips = primary_ips(before) if before else ()
    if old_ips != primary_ips(now):
        return f"its IPs changed from {list(old_ips)} to {list(primary_ips(now))}"
    old_cidrs = before.pod_cidrs if before else ()
    if by_node_cidr(config) and old_cidrs != now.pod_cidrs:
        return f"its pod CIDRs changed from {list(old_cidrs)} to {list(now.pod_cidrs)}"
    return ""
