"""Our Node against the configuration: notices at the start, reasons for a restart later.

Functions on values only.
"""

from collections.abc import Iterator

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.healing import parse_healing
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState, primary_ips
from kubeproxy.config.errors import Level, Notice
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.node import (
    detector,
    node_ips,
    node_view,
    primary_family,
    with_bind_address,
)
from kubeproxy.engine.node_warnings import family_warnings, node_port_warnings
from kubeproxy.table.node import NodeView


def by_node_cidr(config: KubeProxyConfiguration) -> bool:
    """Whether pods are recognised by the pod ranges of our Node."""
    return config.detect_local_mode == LocalMode.NODE_CIDR.value


def start_notices(
    config: KubeProxyConfiguration,
    gates: Gates,
    families: tuple[Family, ...],
    listed: NodeState | None,
) -> Iterator[Notice]:
    """What an operator should know before the proxy starts on this node.

    Raises an `OperatorError` where nothing could work.
    """
    node = with_bind_address(listed, config.bind_address)
    primary, dual_stack = primary_family(node), len(families) > 1
    if listed and listed.ips:
        yield Notice(
            Level.INFO, "Successfully retrieved NodeIPs", {"NodeIPs": list(primary_ips(listed))}
        )
    if primary not in node_ips(node):
        yield Notice(
            Level.INFO,
            "Can't determine this node's IP, assuming loopback; if this is incorrect, please"
            " set the --bind-address flag",
        )
    if primary not in families:
        raise OperatorError(
            f'no support for primary IP family "{primary.value}" on this machine; check that'
            " its kernel has it, that no sysctl disables it, and --bind-address"
        )
    yield from node_port_warnings(config, node)
    mode = load_mode(config.mode)
    for family in families:
        yield from _unserved_loopback(node_view(config, gates, family, node), mode)
    yield from _no_healing(config, mode)
    yield from _no_fast_path(config, mode)
    yield from _no_relaying(config, mode)
    yield _stack(primary, dual_stack=dual_stack)
    yield from family_warnings(config, node, dual_stack=dual_stack)
    yield from _missing_detector(config, node, primary)


def _unserved_loopback(node: NodeView, mode: Mode) -> Iterator[Notice]:
    """Whether node ports are wanted on loopback addresses, and not served there."""
    asked = node.loopback_ranges
    if not asked or node.serves_loopback(mode.quirks):
        return
    where = "those" if len(asked) < len(node.node_port_ranges) else f"any {node.family.value} IP"
    pairs = {
        "address": list(map(str, asked)),
        "effect": f"NodePort connections will not be accepted on {where}",
    }
    why = mode.why_no_loopback(node.family)
    yield Notice(Level.ERROR, f"--nodeport-addresses includes localhost but {why}", pairs)


def _no_healing(config: KubeProxyConfiguration, mode: Mode) -> Iterator[Notice]:
    """Whether healing is asked for in a mode that does not heal."""
    parts = config.nftables.healing.parts
    if parse_healing(parts) and not mode.quirks.heals:
        message = (
            "nftables.healing has no effect in this mode:"
            " connections to endpoints that fail are not healed"
        )
        yield Notice(Level.WARNING, message, {"mode": mode.name, "parts": parts})


def _no_fast_path(config: KubeProxyConfiguration, mode: Mode) -> Iterator[Notice]:
    """Whether the fast path is asked for in a mode that has none."""
    if config.nftables.fast_path.enabled and not mode.has_fast_path:
        message = "nftables.fastPath has no effect in this mode: all packets meet the rules"
        yield Notice(Level.WARNING, message, {"mode": mode.name})


def _no_relaying(config: KubeProxyConfiguration, mode: Mode) -> Iterator[Notice]:
    """Whether settings of a proxy that relays are made in a mode that does not."""
    usual = KubeProxyConfiguration()
    if mode.quirks.relays:
        return
    for field, is_set in {
        "udpIdleTimeout": config.udp_idle_timeout != usual.udp_idle_timeout,
        "portRange": bool(config.port_range),
        "userspace.workers": config.userspace.workers != usual.userspace.workers,
        "userspace.portMap": bool(config.userspace.port_map),
    }.items():
        if is_set:
            message = "Config field has no effect in this mode: it is for userspace mode"
            yield Notice(Level.WARNING, message, {"mode": mode.name, "field": field})


def _stack(primary: Family, *, dual_stack: bool) -> Notice:
    if dual_stack:
        pairs = {"primary ipFamily": primary.value}
        return Notice(Level.INFO, "kube-proxy running in dual-stack mode", pairs)
    pairs = {"ipFamily": primary.value}
    return Notice(Level.INFO, "kube-proxy running in single-stack mode", pairs)


def _missing_detector(
    config: KubeProxyConfiguration, node: NodeState, primary: Family
) -> Iterator[Notice]:
    """Whether pods of the primary family cannot be recognised."""
    if detector(config, node, primary) is not None:
        return
    family = primary.value
    if by_node_cidr(config):
        yield Notice(
            Level.INFO,
            "Detect-local-mode set to NodeCIDR, but no PodCIDR defined at node for primary IP"
            " family",
            {"ipFamily": family, "podCIDRs": list(node.pod_cidrs)},
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
