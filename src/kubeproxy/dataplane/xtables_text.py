"""Texts that iptables and ipvs mode have in common: of programs, rules and metrics."""

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.mode import Metric
from kubeproxy.table.node import Node, PodCIDR

PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}

RESTORE_FAILURES = Metric(
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    "Runs of iptables-restore that failed",
)


def pod_match(node: Node) -> tuple[str, str]:
    """The option that matches packets of pods, and its value; empty when there is none."""
    detector = node.detector
    if detector is None:
        return "", ""
    if isinstance(detector, PodCIDR):
        return "-s", str(detector.prefix)
    return "-i", f"{detector.name}+" if detector.prefix else detector.name
