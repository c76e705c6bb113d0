"""What each class of source gets from a kind of frontend. This is the only place that says it.

A service port has one policy for its cluster IP and one for all of its other addresses. All that
reads a policy (`decide`, `explain`, the rows, the dataplanes) reads its treatments.
"""

from enum import Enum
from typing import Self

import msgspec


class Source(Enum):
    """Where a packet comes from."""

    POD = "pod"
    HOST = "host"
    OUTSIDE = "outside"


class Scope(Enum):
    """The endpoints that a packet may be sent to: all usable ones, or those on this node."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


class Refusal(Enum):
    """What happens to a packet for which there is no endpoint."""

    REJECT = "reject"
    DROP = "drop"


class Masquerading(Enum):
    """Whose source address is rewritten on the way to a cluster IP, by the node's settings."""

    NEVER = "never"
    ALWAYS = "always"
    UNLESS_POD = "unless the client is a pod"


class Why(Enum):
    """Why the source address is rewritten or kept."""

    OFF_CLUSTER = "the client is not a pod: a reply must come back through this node"
    ALL = "masqueradeAll is set"
    CLUSTER_POLICY = (
        "externalTrafficPolicy is Cluster: the endpoint may be on another node, "
        "whose reply must come back through this node"
    )
    SHORT_CIRCUIT_HOST = "the node itself may have used the service's address as its own"
    KEPT_FOR_POD = "the client is a pod, which every endpoint can answer directly"
    KEPT_LOCAL = "externalTrafficPolicy is Local, which keeps the client's address"
    RELAYED = "userspace mode makes the connection to the endpoint itself"
    NO_DETECTOR = "no pod range is configured, so pods cannot be recognised"


class Treatment(msgspec.Struct, frozen=True):
    """What one class of source gets: which endpoints, and whether its address is rewritten.

    `why` is None where the node's settings decide about the address (`NodeView.masquerading`).
    """

    scope: Scope
    masquerade: bool = False
    why: Why | None = None


class Policy(Enum):
    """What pods, the node itself and clients outside get. The value is its name on the wire.

    `is_uniform` says that all get the same; `scopes` are those that any of them gets.
    """

    value: str
    pod: Treatment
    host: Treatment
    outside: Treatment
    is_uniform: bool
    scopes: tuple[Scope, ...]

    def __new__(
        cls,
        name: str,
        outside: Treatment,
        pod: Treatment | None = None,
        host: Treatment | None = None,
    ) -> Self:
        """A policy; without a treatment of their own, pods and the node are treated as others."""
        policy = object.__new__(cls)
        policy._value_ = name
        policy.outside = outside
        policy.pod = pod or outside
        policy.host = host or outside
        policy.is_uniform = policy.pod is policy.host is outside
        policy.scopes = tuple(
            {policy.pod.scope: None, policy.host.scope: None, outside.scope: None}
        )
        return policy

    INTERNAL_CLUSTER = ("internal-cluster", Treatment(Scope.CLUSTER))
    INTERNAL_LOCAL = ("internal-local", Treatment(Scope.LOCAL))
    EXTERNAL_CLUSTER = (
        "external-cluster",
        Treatment(Scope.CLUSTER, True, Why.CLUSTER_POLICY),
    )
    EXTERNAL_LOCAL = (
        "external-local",
        Treatment(Scope.LOCAL, False, Why.KEPT_LOCAL),
        Treatment(Scope.CLUSTER, False, Why.KEPT_FOR_POD),
        Treatment(Scope.CLUSTER, True, Why.SHORT_CIRCUIT_HOST),
    )

    def treatment(self, source: Source) -> Treatment:
        """What a class of source gets."""
        return {Source.POD: self.pod, Source.HOST: self.host, Source.OUTSIDE: self.outside}[source]


def policies(*, internal_local: bool, external_local: bool) -> tuple[Policy, Policy]:
    """The policies of cluster IPs and of external addresses, by the Service's traffic policies."""
    return (
        Policy.INTERNAL_LOCAL if internal_local else Policy.INTERNAL_CLUSTER,
        Policy.EXTERNAL_LOCAL if external_local else Policy.EXTERNAL_CLUSTER,
    )
