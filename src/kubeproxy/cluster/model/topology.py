"""Which endpoints of a service port are usable, for which traffic policy, and why others are not.

*Ready* endpoints are used; when there is none, those that are terminating but still serving.
Traffic policy Cluster uses all of them and follows topology hints; policy Local uses those on
this node and ignores hints. The two fall back independently of each other.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import add, attrgetter, sub
from typing import NamedTuple

import msgspec

from kubeproxy.base.steps import PART, Steps, finish
from kubeproxy.cluster.model.endpoint import Endpoint
from kubeproxy.cluster.model.merge import PortEndpoint
from kubeproxy.cluster.model.serviceport import ServicePort


class HintMode(Enum):
    """Which hints select the endpoints for policy Cluster."""

    NONE = "none"
    SAME_NODE = "same node"
    SAME_ZONE = "same zone"


class Condition(Enum):
    """Which endpoints a list has: the ready ones, or those that terminate but still serve."""

    READY = "ready"
    DRAINING = "draining"


class Tally(NamedTuple):
    """How many endpoints of each kind there are: what the choice among them depends on.

    None is counted as both ready and draining. Those with hints are ready ones; `this_node` and
    `this_zone` have hints that name these.
    """

    ready: int = 0
    draining: int = 0
    ready_here: int = 0
    draining_here: int = 0
    node_hints: int = 0
    this_node: int = 0
    zone_hints: int = 0
    this_zone: int = 0

    def changed(self, left: "Tally", came: "Tally") -> "Tally":
        """The tally without some endpoints, and with others."""
        return Tally(*map(add, map(sub, self, left), came))


class Selection(msgspec.Struct, frozen=True):
    """Which endpoints each traffic policy uses; None for a policy that the port never has.

    `any` says that some endpoint, on any node, can serve.
    """

    hints: HintMode = HintMode.NONE
    cluster: Condition | None = None
    local: Condition | None = None
    any: bool = False


class Usable(msgspec.Struct, frozen=True):
    """The endpoints for traffic policy Cluster and Local; `any` when there is one on any node.

    A list is None when the service port never uses it.
    """

    cluster: tuple[PortEndpoint, ...] | None
    local: tuple[PortEndpoint, ...] | None
    any: bool
    hints: HintMode


_ENDPOINT = attrgetter("endpoint")


def usable_endpoints(
    port: ServicePort, endpoints: Sequence[PortEndpoint], node: str, zone: str
) -> Usable:
    """Choose among the endpoints of the port, on the node of this name, in this zone."""
    return finish(usable_in_steps(port, endpoints, node, zone))


def usable_in_steps(
    port: ServicePort, endpoints: Sequence[PortEndpoint], node: str, zone: str
) -> Steps[Usable]:
    """The same, with a pause after each step."""
    counts = tally(list(map(_ENDPOINT, endpoints[:PART])), node, zone)
    for start in range(PART, len(endpoints), PART):
        yield
        part = list(map(_ENDPOINT, endpoints[start : start + PART]))
        counts = counts.changed(Tally(), tally(part, node, zone))
    selection = select(port, counts)
    cluster: tuple[PortEndpoint, ...] | None = None
    local: tuple[PortEndpoint, ...] | None = None
    if selection.cluster is not None:
        if counts.ready == len(endpoints) and selection.hints is HintMode.NONE:
            cluster = tuple(endpoints)
        else:
            uses = users(selection.cluster, selection.hints, node, zone)
            cluster = tuple([at for at in endpoints if uses(at.endpoint)])
    if selection.local is not None:
        uses = users(selection.local)
        local = tuple([at for at in endpoints if at.endpoint.local and uses(at.endpoint)])
    return Usable(cluster, local, selection.any, selection.hints)


def tally(endpoints: Sequence[Endpoint], node: str, zone: str) -> Tally:
    """Count the endpoints, on the node of this name, in this zone."""
    others = [e for e in endpoints if not e.ready or e.local or e.node_hints or e.zone_hints]
    if not others:  # as usual: nothing but ready ones on other nodes
        return Tally(len(endpoints))
    ready = [each for each in others if each.ready]
    drain = [each for each in others if not each.ready and each.serving and each.terminating]
    nodes = [each.node_hints for each in ready if each.node_hints]
    zones = [each.zone_hints for each in ready if each.zone_hints]
    return Tally(
        ready=len(endpoints) - len(others) + len(ready),
        draining=len(drain),
        ready_here=len([each for each in ready if each.local]),
        draining_here=len([each for each in drain if each.local]),
        node_hints=len(nodes),
        this_node=len([each for each in nodes if node in each]) if node else 0,
        zone_hints=len(zones),
        this_zone=len([each for each in zones if zone in each]) if zone else 0,
    )


def select(port: ServicePort, counts: Tally) -> Selection:
    """Which endpoints the policies of the port use, given how many there are of each kind."""
    hints, cluster, local = HintMode.NONE, None, None
    if not port.internal_local or port.externally_accessible:
        hints = _hint_mode(counts)
        cluster = Condition.READY if counts.ready else Condition.DRAINING
    if port.internal_local or (port.external_local and port.externally_accessible):
        local = Condition.READY if counts.ready_here else Condition.DRAINING
    return Selection(hints, cluster, local, any=bool(counts.ready or counts.draining))


def users(
    condition: Condition, hints: HintMode = HintMode.NONE, node: str = "", zone: str = ""
) -> Callable[[Endpoint], bool]:
    """Which endpoints are in a list; for policy Local, of those on this node."""
    if condition is Condition.DRAINING:
        return lambda each: each.serving and each.terminating
    match hints:
        case HintMode.SAME_NODE:
            return lambda each: each.ready and node in each.node_hints
        case HintMode.SAME_ZONE:
            return lambda each: each.ready and zone in each.zone_hints
        case _:
            return attrgetter("ready")


def _hint_mode(counts: Tally) -> HintMode:
    """Hints are used when every ready endpoint has one of the kind and one names this node."""
    if counts.this_node and counts.node_hints == counts.ready:
        return HintMode.SAME_NODE
    if counts.this_zone and counts.zone_hints == counts.ready:
        return HintMode.SAME_ZONE
    return HintMode.NONE


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
