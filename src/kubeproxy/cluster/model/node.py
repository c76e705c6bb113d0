"""Our own Node object -> what the proxy needs of it."""

import msgspec

from kubeproxy.base.inet import Family, family_of, parse_address, parse_prefix
from kubeproxy.cluster.objects.meta import ZONE_LABEL
from kubeproxy.cluster.objects.types import Node

_DELETION_TAINT = "ToBeDeletedByClusterAutoscaler"


class NodeState(msgspec.Struct, frozen=True):
    """Our Node. `ips` has InternalIP before ExternalIP.

    It is `eligible` for the traffic of load balancers until it is being deleted.
    """

    name: str
    zone: str = ""
    ips: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    eligible: bool = True

    def ip(self, family: Family) -> str | None:
        """The first address of the family."""
        return next((ip for ip in self.ips if family_of(ip) is family), None)


def derive_node(node: Node) -> NodeState:
    """The state in a Node object."""
    listed = (node.status.addresses if node.status else None) or ()
    addresses = [
        parse_address(entry.address)
        for wanted in ("InternalIP", "ExternalIP")
        for entry in listed
        if entry.type == wanted
    ]
    spec = node.spec
    cidrs = [parse_prefix(text) for text in (spec.pod_cidrs if spec else None) or ()]
    taints = (spec.taints if spec else None) or ()
    tainted = any(taint.key == _DELETION_TAINT for taint in taints)
    return NodeState(
        name=node.metadata.name,
        zone=(node.metadata.labels or {}).get(ZONE_LABEL, ""),
        ips=tuple(dict.fromkeys(address for address in addresses if address is not None)),
        pod_cidrs=tuple(str(cidr) for cidr in cidrs if cidr is not None),
        eligible=not tainted and node.metadata.deletion_timestamp is None,
    )


def primary_ips(node: NodeState) -> tuple[str, ...]:
    """The first address of each family: the daemon restarts when one changes."""
    first: dict[Family, str] = {}
    for ip in node.ips:
        first.setdefault(family_of(ip), ip)
    return tuple(first.values())
