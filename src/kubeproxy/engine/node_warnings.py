"""Configurations that are valid but do not fit the node: a warning, or an error."""

from collections.abc import Iterable
from typing import Final

from kubeproxy.base.inet import Family, family_of, pack, parse_address, parse_prefix
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.errors import ConfigError, Level, Notice, ValueTextError, joined
from kubeproxy.config.nodeports import expand
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode
from kubeproxy.config.values import split_host_port
from kubeproxy.engine.node import node_ips, primary_family

_MESSAGE: Final = "Kube-proxy configuration may be incomplete or incorrect"


def node_port_warnings(config: KubeProxyConfiguration, node: NodeState) -> tuple[Notice, ...]:
    """Whether NodePorts are open or closed where that is not expected.

    Upstream opens a family that the list does not name; here such a family serves no NodePorts,
    so the texts differ.
    """
    prefixes = expand(config.node_port_addresses, node_ips(node))
    families = {prefix.family for prefix in prefixes}
    family = primary_family(node)
    primary, other = family.value, family.other.value
    if not prefixes and config.node_port_addresses:
        text = (
            "nodePortAddresses names no address, because this node's IPs are not known;"
            " NodePort connections will not be accepted. Consider setting `--bind-address`"
        )
    elif not prefixes:
        text = (
            "nodePortAddresses is unset; NodePort connections will be accepted on all local IPs."
            " Consider using `--nodeport-addresses primary`"
        )
    elif families == {family} and _is_dual_stack(config, node):
        text = (
            f"cluster appears to be dual-stack but nodePortAddresses contains only {primary}"
            f" addresses; NodePort connections will not be accepted on any {other} IP"
        )
    elif family not in families:
        text = (
            f"cluster appears to be {primary}-primary but nodePortAddresses contains only {other}"
            f" addresses; NodePort connections will not be accepted on any {primary} IP"
        )
    else:
        return ()
    return (Notice(Level.ERROR, _MESSAGE, {"err": text}),)


def _is_dual_stack(config: KubeProxyConfiguration, node: NodeState) -> bool:
    """Whether any list of the configuration has addresses of both families."""
    node_port_cidrs = tuple(map(str, expand(config.node_port_addresses, node_ips(node))))
    lists = (config.cluster_cidrs, node_port_cidrs, config.ipvs.exclude_cidrs, node.pod_cidrs)
    return any(len(_families(cidrs)) == 2 for cidrs in lists)


def _families(cidrs: Iterable[str]) -> set[Family]:
    """The families of those CIDRs that are some."""
    prefixes = map(parse_prefix, cidrs)
    return {prefix.family for prefix in prefixes if prefix is not None}


def family_warnings(
    config: KubeProxyConfiguration, node: NodeState, *, dual_stack: bool
) -> tuple[Notice, ...]:
    """Settings of the wrong family; raises ConfigError when nothing could work with them."""
    primary = primary_family(node).value
    texts = [
        f"cluster is {primary}-{'primary' if dual_stack else 'only'} but {text}"
        for text in _mismatches(config, node, dual_stack=dual_stack)
    ]
    if not texts:
        return ()
    if _is_fatal(config, node, dual_stack=dual_stack):
        raise ConfigError(f"kube-proxy configuration is incorrect: {joined(texts)}")
    return (Notice(Level.ERROR, _MESSAGE, {"err": joined(texts)}),)


def _is_fatal(config: KubeProxyConfiguration, node: NodeState, *, dual_stack: bool) -> bool:
    """Whether local traffic cannot be recognised at all."""
    wrong = {primary_family(node).other}
    match config.detect_local_mode:
        case LocalMode.CLUSTER_CIDR.value:
            return not dual_stack and _families(config.cluster_cidrs) == wrong
        case LocalMode.NODE_CIDR.value:
            return _families(node.pod_cidrs) == wrong
        case _:
            return False


def _mismatches(config: KubeProxyConfiguration, node: NodeState, *, dual_stack: bool) -> list[str]:
    """The settings that are of the other family only."""
    found = [
        ("clusterCIDRs contains only {} addresses", _families(config.cluster_cidrs)),
        ("node.spec.podCIDRs contains only {} addresses", _families(node.pod_cidrs)),
        ("winkernel.sourceVip is {}", _family(config.winkernel.source_vip)),
    ]
    # With both families at work, these serve the other one.
    if not dual_stack:
        found += [
            ("ipvs.excludeCIDRs contains only {} addresses", _families(config.ipvs.exclude_cidrs)),
            ("healthzBindAddress is {}", _family(_bound_ip(config.healthz_bind_address))),
            ("metricsBindAddress is {}", _family(_bound_ip(config.metrics_bind_address))),
        ]
    wrong = primary_family(node).other
    return [text.format(wrong.value) for text, families in found if families == {wrong}]


def _family(text: str) -> set[Family]:
    """The family of an address; none when it is no address."""
    address = parse_address(text)
    return set() if address is None else {family_of(address)}


def _bound_ip(text: str) -> str:
    """The address that a server is bound to; empty when it is every address, or none."""
    try:
        host, _ = split_host_port(text)
    except ValueTextError:
        return ""
    address = parse_address(host)
    return address if address is not None and any(pack(address)) else ""
