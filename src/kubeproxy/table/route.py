"""What a frontend gives to each class of traffic: the backends, and the source address.

The rows of the table that people and dataplanes read: (frontend, source) -> backends, masquerade,
and what happens when there is nobody.
"""

from enum import Enum

import msgspec

from kubeproxy.table.entries import Backend, Entry, FrontendKind
from kubeproxy.table.node import Mode


class Source(Enum):
    """Where a packet comes from."""

    POD = "pod"
    HOST = "host"
    OUTSIDE = "outside"


class Nobody(Enum):
    """What happens to a packet when the route has no backends."""

    REJECT = "reject"
    DROP = "drop"


class Why(Enum):
    """Why the source address is rewritten or kept, as far as the frontend decides it."""

    OFF_CLUSTER = "the client is not a pod: a reply must come back through this node"
    ALL = "masqueradeAll is set"
    CLUSTER_POLICY = (
        "externalTrafficPolicy is Cluster: the endpoint may be on another node, "
        "whose reply must come back through this node"
    )
    SHORT_CIRCUIT_HOST = "the node itself may have used the service's address as its own"
    KEPT_FOR_POD = "the client is a pod, which every endpoint can answer directly"
    KEPT_LOCAL = "externalTrafficPolicy is Local, which keeps the client's address"
    NO_DETECTOR = "no pod range is configured, so pods cannot be told from others"


class Route(msgspec.Struct, frozen=True):
    """What one class of traffic gets from one kind of frontend.

    `local_policy` says that the backends are those of this node only.
    """

    backends: tuple[Backend, ...]
    local_policy: bool
    masquerade: bool
    why: Why
    nobody: Nobody


class Masquerading(msgspec.Struct, frozen=True):
    """The operator's settings that decide about cluster-IP traffic."""

    detector: bool
    all: bool = False


def route(
    entry: Entry, kind: FrontendKind, source: Source, setup: Masquerading, mode: Mode
) -> Route:
    """The route of a class of traffic through a kind of frontend."""
    if mode is Mode.IPVS:
        return _ipvs_route(entry, kind, source, setup)
    nobody = Nobody.DROP if entry.any else Nobody.REJECT
    if kind is FrontendKind.CLUSTER_IP:
        masquerade, why = _cluster_ip_masquerade(source, setup)
        backends = entry.local if entry.internal_local else entry.cluster
        return Route(backends, entry.internal_local, masquerade, why, nobody)
    if not entry.external_local:
        return Route(entry.cluster, False, True, Why.CLUSTER_POLICY, nobody)
    if source is Source.POD and setup.detector:
        return Route(entry.cluster, False, False, Why.KEPT_FOR_POD, nobody)
    if source is Source.HOST:
        return Route(entry.cluster, False, True, Why.SHORT_CIRCUIT_HOST, nobody)
    return Route(entry.local, True, False, Why.KEPT_LOCAL, nobody)


def _cluster_ip_masquerade(source: Source, setup: Masquerading) -> tuple[bool, Why]:
    if setup.all:
        return True, Why.ALL
    if not setup.detector:
        return False, Why.NO_DETECTOR
    if source is Source.POD:
        return False, Why.KEPT_FOR_POD
    return True, Why.OFF_CLUSTER


def _ipvs_route(entry: Entry, kind: FrontendKind, source: Source, setup: Masquerading) -> Route:
    """ipvs has one list of endpoints for all sources, and falls back to remote endpoints."""
    local = entry.external_local if kind.external else entry.internal_local
    only_here = local and (bool(entry.local) or not entry.externally_accessible)
    backends = entry.local if only_here else entry.cluster
    if not kind.external:
        masquerade, why = _cluster_ip_masquerade(source, setup)
    elif entry.external_local:
        masquerade, why = False, Why.KEPT_LOCAL
    else:
        masquerade, why = True, Why.CLUSTER_POLICY
    return Route(backends, only_here, masquerade, why, Nobody.REJECT)
