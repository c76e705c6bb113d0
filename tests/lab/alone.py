"""A node without a network around it, as a daemon has to find one: it forwards, and is kestrel."""

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace
from world import NODE_IP

_FORWARD = (("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1"))


def be_kestrel(node: Namespace) -> None:
    """Give it what a node has, so that nothing is wrong with it."""
    node.run(["ip", "link", "set", "lo", "up"])
    node.sysctl(_FORWARD)
    for family in Family:
        node.run(["ip", "address", "add", NODE_IP[family], "dev", "lo"])
