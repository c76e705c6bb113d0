"""A question about a packet, and the cluster as seen from a node -> explanations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeproxy.base.inet import Family, family_of, join
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.endpoint import Endpoint
from kubeproxy.cluster.model.merge import PortEndpoint, endpoints_of
from kubeproxy.cluster.model.topology import (
    HintMode,
    LeftOut,
    Usable,
    usable_endpoints,
    why_left_out,
)
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.dataplane.failures import Endpoint as Socket
from kubeproxy.engine.ejection import Ejection
from kubeproxy.explain.question import Origin, Pod, Question, questions
from kubeproxy.explain.words import Context, Explanation, NotChosen, explain, left_out
from kubeproxy.table.claims import Conflict
from kubeproxy.table.decide import Packet, Reason, Verdict, decide
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.quirks import Quirks


class View(msgspec.Struct, frozen=True):
    """A cluster as seen from one node, and the pods that a question may name.

    `pods` is None where pods are unknown. The tables may be older than the cluster: a service port
    that was removed since is explained without its endpoints. `left_out` are endpoints that fail,
    until when on the wall clock.
    """

    cluster: Cluster
    mode: str
    quirks: Quirks
    ips: Mapping[Family, str]
    tables: Mapping[Family, Table]
    nodes: Mapping[Family, NodeView]
    conflicts: Mapping[Family, Sequence[Conflict]]
    pods: Sequence[Pod] | None = ()
    left_out: Mapping[Family, Mapping[ServicePortName, Sequence[Ejection]]] = {}


class Asked(msgspec.Struct, frozen=True):
    """A question as it was asked: from where to where, as `question` reads it.

    `interface` is where the packet enters the node, "" when it was not given.
    """

    source: str
    destinations: Sequence[str]
    interface: str = ""


def answer(asked: Asked, view: View) -> list[Explanation]:
    """The explanation of each packet that was asked for."""
    return [explained(question, view) for question in meant(asked, view)]


def meant(asked: Asked, view: View) -> list[Question]:
    """The packets that were asked for; a destination may stand for thousands."""
    origin = Origin(view.cluster.node_name, view.ips, view.pods, asked.interface)
    return [
        question
        for destination in asked.destinations
        for question in questions(asked.source, destination, view.tables, origin)
    ]


def explained(question: Question, view: View) -> Explanation:
    """The explanation of one packet."""
    packet = question.packet
    family = family_of(packet.destination)
    verdict = decide(packet, view.tables[family], view.nodes[family], view.quirks)
    places, not_chosen = _endpoints(verdict, family, view)
    context = Context(
        node_name=view.cluster.node_name,
        node=view.nodes[family],
        mode=view.mode,
        quirks=view.quirks,
        places=places,
        not_chosen=not_chosen,
        notes=(*question.notes, *_notes(verdict, packet, view)),
    )
    return explain(verdict, packet, context)


def _notes(verdict: Verdict, packet: Packet, view: View) -> Iterator[str]:
    """What the tables know about the destination besides the verdict."""
    family = family_of(packet.destination)
    matched = verdict.frontend
    if matched is None:
        keys = view.tables[family].destinations(packet.destination)
        if keys:
            yield f"services have these ports of the address: {', '.join(map(str, keys))}"
        return
    if verdict.reason is Reason.SOURCE_RANGES and verdict.service is not None:
        ranges = view.tables[family].entries[verdict.service].source_ranges or ()
        yield f"allowed are {', '.join(map(str, ranges)) or f'no {family.value} sources at all'}"
    for conflict in view.conflicts[family]:
        if conflict.key == (matched.address, packet.protocol, matched.port):
            yield f"{conflict.loser} claims {conflict.key} too and does not get it"


_ABOUT_ENDPOINTS: Final = (
    None,
    Reason.NO_ENDPOINTS,
    Reason.NO_LOCAL_ENDPOINTS,
    Reason.NOT_CHECKED_ON_OUTPUT,
)


def _endpoints(
    verdict: Verdict, family: Family, view: View
) -> tuple[dict[str, str], tuple[NotChosen, ...]]:
    """The nodes of the service's endpoints, where slices name them, and why some are not chosen.

    The second is empty where the verdict is not about endpoints.
    """
    name, cluster = verdict.service, view.cluster
    if name is None:
        return {}, ()
    service = ObjectKey(name.namespace, name.service)
    for port in cluster.service_ports(family, service):
        if (port.name, port.protocol) == (name.port, name.protocol):
            break
    else:
        return {}, ()
    endpoints = endpoints_of(cluster.slices(family, service), port.name, port.protocol)
    places = {join(at.endpoint.address, at.port): at.endpoint.node for at in endpoints}
    if verdict.reason not in _ABOUT_ENDPOINTS:
        return places, ()
    usable = usable_endpoints(port, endpoints, cluster.node_name, cluster.zone)
    local = verdict.local_policy
    ejections = view.left_out.get(family, {}).get(name, ())
    out = missing(view.tables[family].entries.get(name), ejections, local_policy=local)
    reasons = why_not_used(endpoints, usable, cluster, out, local_policy=local)
    return places, tuple(
        NotChosen(text, why) for text, why in zip(places, reasons, strict=True) if why
    )


def missing(
    entry: Entry | None, ejections: Iterable[Ejection], *, local_policy: bool
) -> dict[Socket, str]:
    """Why a policy's list of backends does not have endpoints that fail."""
    backends = () if entry is None else entry.local if local_policy else entry.cluster
    listed = {(each.address, each.port) for each in backends}
    return {each.endpoint: left_out(each) for each in ejections if each.endpoint not in listed}


def why_not_used(
    endpoints: Sequence[PortEndpoint],
    usable: Usable,
    cluster: Cluster,
    ejected: Mapping[Socket, str],
    *,
    local_policy: bool,
) -> Iterator[str | None]:
    """Why a traffic policy sends nothing to each of the endpoints; `ejected` are those that fail.

    "" where it does, and None for each where no frontend follows the policy.
    """
    in_force = (usable.local if local_policy else usable.cluster) is not None
    whys = why_left_out(endpoints, usable, local_policy=local_policy)
    for at, why in zip(endpoints, whys, strict=True):
        if not in_force:
            yield None
        elif why:
            yield _why_not(at.endpoint, why, usable.hints, cluster)
        else:
            yield ejected.get(Socket(at.endpoint.address, at.port), "")


def _why_not(endpoint: Endpoint, why: LeftOut, hints: HintMode, cluster: Cluster) -> str:
    """Why an endpoint cannot be chosen, with the names of nodes or zones."""
    match why:
        case LeftOut.NOT_LOCAL if endpoint.node:
            return f"it is on node {endpoint.node}, and the traffic policy is Local"
        case LeftOut.NOT_LOCAL:
            return "its slice does not say on which node it is, and the traffic policy is Local"
        case LeftOut.NOT_HINTED if hints is HintMode.SAME_NODE:
            nodes = ", ".join(endpoint.node_hints)
            return f"its topology hints are for node {nodes}, and this is {cluster.node_name}"
        case LeftOut.NOT_HINTED:
            zones = ", ".join(endpoint.zone_hints)
            return f"its topology hints are for zone {zones}, and this node is in {cluster.zone}"
        case _:
            return str(why.value)
