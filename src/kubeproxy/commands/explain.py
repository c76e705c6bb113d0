"""`kube-proxy explain`: where would this packet go, and why."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeproxy.commands.question import Origin, Question, questions, served
from kubeproxy.commands.snapshot import Snapshot
from kubeproxy.commands.view import View, read_snapshot, shared_flags, view_of
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.kinds import STRING, STRINGS
from kubeproxy.config.load import Loaded, load
from kubeproxy.config.validate import validate
from kubeproxy.inet import Family, family_of, join, parse_address
from kubeproxy.model.cluster import Cluster
from kubeproxy.model.endpoint import Endpoint, Slice
from kubeproxy.model.merge import merge
from kubeproxy.model.serviceport import ServicePort
from kubeproxy.model.topology import HintMode, LeftOut, Place, hint_mode
from kubeproxy.objects.meta import ObjectKey
from kubeproxy.table.compile import left_out
from kubeproxy.table.decide import Packet, Reason, Verdict, decide
from kubeproxy.table.explain import Context, Explanation, explain, render

_OWN: Final = (
    Flag(
        "from",
        STRING,
        "outside",
        "Who sends the packet: an address, 'outside', 'host', or a pod ([NAMESPACE/]NAME).",
    ),
    Flag(
        "to",
        STRINGS,
        (),
        "Where to: ADDRESS:PORT[/PROTOCOL], ADDRESS, or [NAMESPACE/]SERVICE[:PORT][/PROTOCOL]."
        " May be repeated.",
    ),
    Flag(
        "node",
        STRING,
        "",
        "The node that handles the packet; default: that of the pod that sends it, else this"
        " host.",
    ),
    Flag(
        "interface",
        STRING,
        "",
        "The interface on which the packet enters the node; only detectLocalMode BridgeInterface"
        " and InterfaceNamePrefix look at it.",
    ),
    Flag("output", STRING, "text", "'text' for people or 'json' for programs.", shorthand="o"),
)


def usage_text() -> str:
    """How to call it."""
    own = [msgspec.structs.replace(flag, group="Question") for flag in _OWN]
    return usage("kube-proxy explain --to DESTINATION", [*own, *shared_flags()])


def main(arguments: Sequence[str]) -> int:
    """Answer the question on the command line."""
    parsed = parse([*_OWN, *FLAGS], arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy explain", parsed)
    output = parsed.value("output", str)
    if output not in {"text", "json"}:
        raise UsageError(f"--output {output}: must be text or json", show_usage=False)
    if not parsed.value("to", tuple):
        raise UsageError("--to is missing: say where the packet goes", show_usage=False)
    loaded = load(parsed)
    validate(loaded.config, loaded.gates)
    snapshot = read_snapshot(parsed, loaded, _pod(parsed.value("from", str)))
    for remark in snapshot.remarks:
        print(f"note: {remark}", file=sys.stderr)  # noqa: T201  # not part of the answer
    answers = answer(parsed, loaded, snapshot)
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(answers), indent=2).decode()
    else:
        text = "\n\n".join(map(render, answers))
    print(text)  # noqa: T201  # the answer
    return 0


def _pod(source: str) -> str:
    """The pod that a source names, if it names one."""
    is_pod = source not in {"outside", "host"} and parse_address(source) is None
    return source if is_pod else ""


def answer(parsed: Parsed, loaded: Loaded, snapshot: Snapshot) -> list[Explanation]:
    """The explanation of each packet that was asked for."""
    view = view_of(loaded, snapshot)
    name = snapshot.cluster.node_name
    origin = Origin(name, view.ips, snapshot.pods, parsed.value("interface", str))
    source = parsed.value("from", str)
    return [
        _explained(question, view)
        for destination in parsed.value("to", tuple)
        for question in questions(source, destination, view.tables, origin)
    ]


def _explained(question: Question, view: View) -> Explanation:
    packet = question.packet
    family = family_of(packet.destination)
    verdict = decide(packet, view.tables[family], view.nodes[family], view.mode)
    context = Context(
        node_name=view.snapshot.cluster.node_name,
        node=view.nodes[family],
        mode=view.mode,
        places=_places(verdict, family, view.snapshot.cluster),
        not_chosen=_not_chosen(verdict, family, view.snapshot.cluster),
        notes=(*question.notes, *_notes(verdict, packet, view)),
    )
    return explain(verdict, packet, context)


def _notes(verdict: Verdict, packet: Packet, view: View) -> Iterator[str]:
    """What the tables know about the destination beside the verdict."""
    family = family_of(packet.destination)
    matched = verdict.frontend
    if matched is None:
        keys = served(packet.destination, view.tables[family])
        if keys:
            yield f"services have these ports of the address: {', '.join(map(str, keys))}"
        return
    if verdict.reason is Reason.SOURCE_RANGES and verdict.service is not None:
        ranges = view.tables[family].entries[verdict.service].source_ranges or ()
        yield f"allowed are {', '.join(map(str, ranges)) or f'no {family.value} sources at all'}"
    for conflict in view.conflicts[family]:
        if conflict.key == (matched.address, packet.protocol, matched.port):
            yield f"{conflict.loser} claims {conflict.key} too and does not get it"


def _service_port(
    verdict: Verdict, family: Family, cluster: Cluster
) -> tuple[ServicePort, Mapping[str, Slice]] | None:
    """The service port that the packet is addressed to, and the slices of its Service."""
    name = verdict.service
    if name is None:
        return None
    service = ObjectKey(name.namespace, name.service)
    ports = cluster.service_ports(family, service)
    port = next(p for p in ports if (p.name, p.protocol) == (name.port, name.protocol))
    return port, cluster.slices(family, service)


def _places(verdict: Verdict, family: Family, cluster: Cluster) -> dict[str, str]:
    """The node of each endpoint of the service, as far as slices name it."""
    found = _service_port(verdict, family, cluster)
    if found is None:
        return {}
    port, slices = found
    endpoints = merge(slices, port.name, port.protocol)
    return {join(at.endpoint.address, at.port): at.endpoint.node for at in endpoints}


_ABOUT_ENDPOINTS: Final = (
    None,
    Reason.NO_ENDPOINTS,
    Reason.NO_LOCAL_ENDPOINTS,
    Reason.NOT_CHECKED_ON_OUTPUT,
)


def _not_chosen(verdict: Verdict, family: Family, cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """The endpoints of the service that cannot be chosen, where that is the question."""
    found = _service_port(verdict, family, cluster)
    if found is None or verdict.reason not in _ABOUT_ENDPOINTS:
        return ()
    port, slices = found
    place = cluster.place
    hints = hint_mode(merge(slices, port.name, port.protocol), place)
    return tuple(
        (join(at.endpoint.address, at.port), _why_not(at.endpoint, why, hints, place))
        for at, why in left_out(port, slices, place, local_policy=verdict.local_policy)
    )


def _why_not(endpoint: Endpoint, why: LeftOut, hints: HintMode, place: Place) -> str:
    """Why an endpoint cannot be chosen, with the names that decide it."""
    match why:
        case LeftOut.NOT_LOCAL if endpoint.node:
            return f"it is on node {endpoint.node}, and the traffic policy is Local"
        case LeftOut.NOT_LOCAL:
            return "its slice does not say on which node it is, and the traffic policy is Local"
        case LeftOut.NOT_HINTED if hints is HintMode.SAME_NODE:
            nodes = ", ".join(endpoint.node_hints)
            return f"its topology hints are for node {nodes}, and this is {place.node}"
        case LeftOut.NOT_HINTED:
            zones = ", ".join(endpoint.zone_hints)
            return f"its topology hints are for zone {zones}, and this node is in {place.zone}"
        case _:
            return str(why.value)
