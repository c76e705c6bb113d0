"""Node (v1)."""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta


class NodeAddress(msgspec.Struct, frozen=True):
    """One of `status.addresses`."""

    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    """`status`."""

    addresses: tuple[NodeAddress, ...] | None = None


class Taint(msgspec.Struct, frozen=True):
    """One of `spec.taints`; only the key is read."""

    key: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    """`spec`."""

    pod_cidrs: tuple[str, ...] | None = msgspec.field(name="podCIDRs", default=None)
    taints: tuple[Taint, ...] | None = None


class Node(msgspec.Struct, frozen=True):
    """A Node."""

    metadata: ObjectMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None
