"""A verdict and its reasons -> plain words, and a value for programs.

Everything that is said here was decided elsewhere: `decide` gives the verdict, the model says why
endpoints were left out. This file only finds the words.
"""

import msgspec

from kubeproxy.inet import join
from kubeproxy.table.decide import Action, Packet, Verdict
from kubeproxy.table.entries import FrontendKind
from kubeproxy.table.node import Mode, Node
from kubeproxy.table.route import Source


class NotChosen(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint of the service that cannot be chosen, and why."""

    endpoint: str
    reason: str


class Candidate(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint that may be chosen."""

    endpoint: str
    percent: float
    on_this_node: bool
    source_rewritten: bool
    hairpin: bool


class Matched(msgspec.Struct, frozen=True, rename="camel"):
    """The service port and the frontend that the packet is addressed to."""

    namespace: str
    service: str
    port: str
    frontend: str
    address: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """All that can be said of one packet."""

    node: str
    mode: str
    source: str
    source_class: str
    destination: str
    verdict: str
    summary: str
    matched: Matched | None = None
    endpoints: tuple[Candidate, ...] = ()
    not_chosen: tuple[NotChosen, ...] = ()
    source_address: str = ""
    affinity: str = ""
    replies: str = ""
    notes: tuple[str, ...] = ()


class Context(msgspec.Struct, frozen=True):
    """What the words need beside the verdict."""

    node_name: str
    node: Node
    mode: Mode
    not_chosen: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def explain(verdict: Verdict, packet: Packet, context: Context) -> Explanation:
    """Say what happens to the packet, and why."""
    return Explanation(
        node=context.node_name,
        mode=context.mode.value,
        source=packet.source,
        source_class=verdict.source.value,
        destination=_destination(packet),
        verdict=verdict.action.value,
        summary=_summary(verdict),
        matched=_matched(verdict),
        endpoints=tuple(
            Candidate(
                endpoint=str(choice.backend),
                percent=round(float(choice.share) * 100, 1),
                on_this_node=choice.backend.local,
                source_rewritten=choice.masquerade,
                hairpin=choice.hairpin,
            )
            for choice in verdict.choices
        ),
        not_chosen=tuple(NotChosen(*each) for each in context.not_chosen),
        source_address=_source_address(verdict),
        affinity=_affinity(verdict),
        replies=_replies(verdict),
        notes=(*context.notes, *_warnings(verdict, packet, context.node)),
    )


def _destination(packet: Packet) -> str:
    if packet.protocol is None:
        return f"{packet.destination} (ICMP)"
    return f"{join(packet.destination, packet.port)}/{packet.protocol.name}"


def _matched(verdict: Verdict) -> Matched | None:
    service, frontend = verdict.service, verdict.frontend
    if service is None or frontend is None:
        return None
    address = frontend.address or "any node-port address"
    where = join(address, frontend.port) if frontend.address else f"{address}, {frontend.port}"
    return Matched(
        namespace=service.namespace,
        service=service.service,
        port=service.port,
        frontend=frontend.kind.value,
        address=f"{where}/{service.protocol.name}",
    )


def _summary(verdict: Verdict) -> str:
    because = f": {verdict.reason.value}" if verdict.reason else ""
    count = len(verdict.choices)
    match verdict.action:
        case Action.FORWARD:
            return f"forwarded to {_one_of(count)}, chosen for each new connection"
        case Action.LOCAL_PROXY:
            return f"accepted by kube-proxy itself, which connects to {_one_of(count)}"
        case Action.REJECT:
            return f"rejected with ICMP port unreachable{because}"
        case Action.DROP:
            return f"dropped without an answer{because}"
        case Action.PASS:
            return f"not touched, ordinary routing applies{because}"


def _one_of(count: int) -> str:
    return "the only endpoint" if count == 1 else f"one of {count} endpoints"


def _source_address(verdict: Verdict) -> str:
    if verdict.action is Action.LOCAL_PROXY:
        return "the endpoint sees an address of this node, because the proxy connects to it"
    if verdict.action is not Action.FORWARD:
        return ""
    reason = verdict.why.value if verdict.why else "unknown"
    if all(choice.masquerade and not choice.hairpin for choice in verdict.choices):
        return f"rewritten to an address of this node: {reason}"
    itself = [str(choice.backend) for choice in verdict.choices if choice.hairpin]
    if not itself:
        return f"kept: {reason}"
    hairpin = f"rewritten if the client reaches itself ({itself[0]}), so that it sees its reply"
    if len(itself) == len(verdict.choices):
        return hairpin
    others = [choice for choice in verdict.choices if not choice.hairpin]
    rest = "rewritten" if others[0].masquerade else "kept"
    return f"{rest}: {reason}; {hairpin}"


def _affinity(verdict: Verdict) -> str:
    if not verdict.choices or not verdict.affinity_seconds:
        return ""
    span = duration(verdict.affinity_seconds)
    return f"a client keeps its endpoint until it made no new connection for {span}"


def duration(seconds: int) -> str:
    """Seconds as people say them."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _replies(verdict: Verdict) -> str:
    match verdict.action:
        case Action.FORWARD:
            if all(choice.masquerade for choice in verdict.choices):
                return (
                    "come back to this node, which restores both addresses: "
                    "the client sees the service's"
                )
            return (
                "must pass this node, which puts the service's address back: "
                "the client sees no other"
            )
        case Action.LOCAL_PROXY:
            return "come back through the proxy's connection"
        case Action.REJECT:
            return "the client gets an error at once"
        case Action.DROP:
            return "none: the client waits for its time-out"
        case Action.PASS:
            return "as for any packet that is not to a service"


def _warnings(verdict: Verdict, packet: Packet, node: Node) -> tuple[str, ...]:
    """What an operator should know although the verdict stands."""
    found = []
    for choice in verdict.choices:
        if choice.backend.address == packet.source and not choice.masquerade:
            found.append(
                f"{choice.backend} is the client itself, but its slice names no node or another "
                "one: this mode does not rewrite the source then, and the connection hangs"
            )
    remote = [choice for choice in verdict.choices if not choice.backend.local]
    bypass = any(not choice.masquerade for choice in remote)
    external = (
        verdict.frontend is not None and verdict.frontend.kind is not FrontendKind.CLUSTER_IP
    )
    if bypass and external and verdict.source is not Source.HOST:
        found.append(
            "if the client is not on this node, the reply of an endpoint on another node does "
            "not pass here, and the connection fails"
        )
    if verdict.frontend is not None and node.detector is None:
        found.append(
            "no pod range is known for this family (detectLocalMode): traffic of pods is "
            "treated like traffic from outside"
        )
    return tuple(found)


def render(explanation: Explanation) -> str:
    """The explanation as text, a fact a line."""
    head = (
        f"{explanation.source} ({explanation.source_class}) -> {explanation.destination}"
        f"   on node {explanation.node}, {explanation.mode} mode"
    )
    rows: list[tuple[str, str]] = []
    matched = explanation.matched
    if matched is not None:
        port = f", port {matched.port}" if matched.port else ""
        service = f"Service {matched.namespace}/{matched.service}{port}"
        rows.append(("frontend", f"{matched.frontend} {matched.address} of {service}"))
    rows.append(("verdict", explanation.summary))
    width = max((len(each.endpoint) for each in explanation.endpoints), default=0)
    rows.extend(("", _candidate(each, width)) for each in explanation.endpoints)
    for index, left_out in enumerate(explanation.not_chosen):
        label = "not chosen" if index == 0 else ""
        rows.append((label, f"{left_out.endpoint}: {left_out.reason}"))
    rows += [
        ("source", explanation.source_address),
        ("affinity", explanation.affinity),
        ("replies", explanation.replies),
        *(("note", note) for note in explanation.notes),
    ]
    return "\n".join([head, *(f"  {label:<11}{text}" for label, text in rows if text)])


def _candidate(candidate: Candidate, width: int) -> str:
    place = "on this node" if candidate.on_this_node else "on another node"
    return f"  {candidate.endpoint:<{width}}  {candidate.percent:g} %  {place}"
