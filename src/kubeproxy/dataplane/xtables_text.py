"""Words of iptables rules that more than one mode writes."""

from kubeproxy.table.node import Node, PodCIDR


def pod_match(node: Node) -> tuple[str, str]:
    """The option that tells pods from others, and its value; empty when there is none."""
    detector = node.detector
    if detector is None:
        return "", ""
    if isinstance(detector, PodCIDR):
        return "-s", str(detector.prefix)
    return "-i", f"{detector.name}+" if detector.prefix else detector.name
