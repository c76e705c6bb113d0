"""Which endpoints of a service port are usable, for which traffic policy, and why others are not.

*Ready* endpoints are used; when there is none, those that are terminating but still serving.
Traffic policy Cluster uses all of them and follows topology hints; policy Local uses those on
this node and ignores hints. The two fall back independently of each other.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from kubeproxy.cluster.model.endpoint import Endpoint
from kubeproxy.cluster.model.merge import PortEndpoint
from kubeproxy.cluster.model.serviceport import ServicePort


class HintMode(Enum):
    """Which hints select the endpoints for policy Cluster."""

    NONE = "none"
    SAME_NODE = "same node"
    SAME_ZONE = "same zone"


class Usable(msgspec.Struct, frozen=True):
    """The endpoints for traffic policy Cluster and Local; `any` when there is one on any node.

    A list is None when the service port never uses it.
    """

    cluster: tuple[PortEndpoint, ...] | None
    local: tuple[PortEndpoint, ...] | None
    any: bool
    hints: HintMode


def usable_endpoints(
    port: ServicePort, endpoints: Sequence[PortEndpoint], node: str, zone: str
) -> Usable:
    """Choose among the endpoints of the port, on the node of this name, in this zone."""
    cluster: tuple[PortEndpoint, ...] | None = None
    local: tuple[PortEndpoint, ...] | None = None
    hints = HintMode.NONE
    some = False
    if not port.internal_local or port.externally_accessible:
        hints = _hint_mode(endpoints, node, zone)
        hinted = _hinted(endpoints, hints, node, zone)
        cluster = _ready_else_draining(hinted, endpoints)
        some = bool(cluster)
    if port.internal_local or (port.external_local and port.externally_accessible):
        own = [at for at in endpoints if at.endpoint.local]
        local = _ready_else_draining(own, own)
        some = some or any(at.endpoint.ready or _draining(at) for at in endpoints)
    return Usable(cluster, local, some, hints)


def _draining(at: PortEndpoint) -> bool:
    return at.endpoint.serving and at.endpoint.terminating


def _ready_else_draining(
    preferred: Iterable[PortEndpoint], fallback: Iterable[PortEndpoint]
) -> tuple[PortEndpoint, ...]:
    ready = tuple([at for at in preferred if at.endpoint.ready])
    return ready or tuple([at for at in fallback if _draining(at)])


def _hinted(
    endpoints: Sequence[PortEndpoint], mode: HintMode, node: str, zone: str
) -> Iterable[PortEndpoint]:
    if mode is HintMode.SAME_NODE:
        return [at for at in endpoints if node in at.endpoint.node_hints]
    if mode is HintMode.SAME_ZONE:
        return [at for at in endpoints if zone in at.endpoint.zone_hints]
    return endpoints


def _hint_mode(endpoints: Sequence[PortEndpoint], node: str, zone: str) -> HintMode:
    """Hints are used when every ready endpoint has one of the kind and one names this node."""
    if _complete((at.endpoint.node_hints for at in endpoints if at.endpoint.ready), node):
        return HintMode.SAME_NODE
    if _complete((at.endpoint.zone_hints for at in endpoints if at.endpoint.ready), zone):
        return HintMode.SAME_ZONE
    return HintMode.NONE


def _complete(hints: Iterable[tuple[str, ...]], name: str) -> bool:
    """Whether all have hints, and one of these is the name."""
    named = False
    for names in hints:
        if not names:  # most clusters have no hints: the first endpoint decides
            return False
        named = named or name in names
    return named and name != ""


class LeftOut(Enum):
    """Why an endpoint is not used."""

    NOT_READY = "it is not ready"
    STOPPED = "it is terminating and no longer serves"
    TERMINATING = "it is terminating, and others are ready"
    NOT_HINTED = "its topology hints send this node elsewhere"
    NOT_LOCAL = "it is not on this node, and the traffic policy is Local"


def why_left_out(
    endpoints: Iterable[PortEndpoint], usable: Usable, *, local_policy: bool
) -> list[LeftOut | None]:
    """Why the policy does not use each of the endpoints; None for one that is used.

    They are those that `usable` was chosen from.
    """
    chosen = set(map(id, (usable.local if local_policy else usable.cluster) or ()))
    return [
        None if id(at) in chosen else _why_not(at.endpoint, local_policy=local_policy)
        for at in endpoints
    ]


def _why_not(endpoint: Endpoint, *, local_policy: bool) -> LeftOut:
    if not endpoint.ready and not endpoint.terminating:
        return LeftOut.NOT_READY
    if not endpoint.ready and not endpoint.serving:
        return LeftOut.STOPPED
    if local_policy and not endpoint.local:
        return LeftOut.NOT_LOCAL
    if not endpoint.ready:
        return LeftOut.TERMINATING
    return LeftOut.NOT_HINTED
