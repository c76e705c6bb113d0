"""A verdict and its reasons -> sentences for people, and a value for programs.

All of it was decided elsewhere: `decide` gives the verdict, and the model the reasons why
endpoints were left out. Here are only the texts.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import join
from kubeproxy.dataplane.failures import Reason
from kubeproxy.engine.ejection import Ejection
from kubeproxy.table.decide import Action, Packet, Verdict
from kubeproxy.table.entries import FrontendKey
from kubeproxy.table.node import NodeView, PodInterface
from kubeproxy.table.policy import Source
from kubeproxy.table.quirks import Quirks

INDENT: Final = 13
"""Where the text of a line begins, after its label."""


class NotChosen(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint of the service that cannot be chosen, and why."""

    endpoint: str
    reason: str


class Candidate(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint that may be chosen. `node` is "" when its slice does not name one."""

    endpoint: str
    percent: float
    node: str
    on_this_node: bool
    source_rewritten: bool
    hairpin: bool

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if self.on_this_node:
            return "on this node"
        if self.node:
            return f"on node {self.node}"
        return "on a node that its slice does not name"


class Matched(msgspec.Struct, frozen=True, rename="camel"):
    """The service port and the frontend that the packet is addressed to.

    The address is "" for a node port, which every node-port address of the node serves.
    """

    namespace: str
    service: str
    port_name: str
    frontend: str
    address: str
    port: int
    protocol: str

    @property
    def place(self) -> str:
        """The address, the port and the protocol."""
        where = join(self.address, self.port) if self.address else f"{self.port}"
        return f"{where}/{self.protocol}"


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of one packet. `reason` is a short name for programs, `summary` a text."""

    node: str
    mode: str
    source: str
    source_class: str
    destination: str
    client: str
    verdict: str
    summary: str
    reason: str = ""
    matched: Matched | None = None
    endpoints: tuple[Candidate, ...] = ()
    not_chosen: tuple[NotChosen, ...] = ()
    source_address: str = ""
    affinity: str = ""
    healing: str = ""
    replies: str = ""
    notes: tuple[str, ...] = ()


class Context(msgspec.Struct, frozen=True):
    """What the texts need besides the verdict.

    `places` are the nodes of the service's endpoints, by `address:port`.
    """

    node_name: str
    node: NodeView
    mode: str
    quirks: Quirks
    places: Mapping[str, str] = {}
    not_chosen: tuple[NotChosen, ...] = ()
    notes: tuple[str, ...] = ()


def explain(verdict: Verdict, packet: Packet, context: Context) -> Explanation:
    """Say what happens to the packet, and why."""
    service, frontend = verdict.service, verdict.frontend
    matched = None
    if service is not None and frontend is not None:
        matched = Matched(
            namespace=service.namespace,
            service=service.service,
            port_name=service.port,
            frontend=frontend.kind.value,
            address=frontend.address,
            port=frontend.port,
            protocol=service.protocol.name,
        )
    affinity = ""
    if verdict.choices and verdict.affinity_seconds:
        span = duration(verdict.affinity_seconds)
        affinity = f"a client keeps its endpoint until it made no new connection for {span}"
    return Explanation(
        node=context.node_name,
        mode=context.mode,
        source=packet.source,
        source_class=verdict.source.value,
        destination=f"{packet.destination} (ICMP)"
        if packet.protocol is None
        else str(FrontendKey(packet.destination, packet.protocol, packet.port)),
        client=_client(verdict.source, packet, context.node),
        verdict=verdict.action.value,
        summary=_summary(verdict),
        reason=verdict.reason.name.lower().replace("_", "-") if verdict.reason else "",
        matched=matched,
        endpoints=tuple(
            Candidate(
                endpoint=str(choice.backend),
                percent=round(float(choice.share) * 100, 1),
                node=context.places.get(str(choice.backend), ""),
                on_this_node=choice.backend.local,
                source_rewritten=choice.masquerade,
                hairpin=choice.hairpin,
            )
            for choice in verdict.choices
        ),
        not_chosen=context.not_chosen,
        source_address=_source_address(verdict),
        affinity=affinity,
        healing="; ".join(_healing(verdict)),
        replies=_replies(verdict),
        notes=(*context.notes, *_warnings(verdict, packet, context)),
    )


def _client(source: Source, packet: Packet, node: NodeView) -> str:
    """What the client is taken for, and why."""
    detector = node.detector
    if source is Source.HOST:
        return "this node itself: the address is one of its own"
    if detector is None:
        return (
            f"outside, as every pod would be: no pod range is known for {node.family.value}; "
            "give explain the proxy's --config, or --cluster-cidr"
        )
    if isinstance(detector, PodInterface):
        where = packet.interface or "an interface that is not known (--interface)"
        taken = "a pod" if source is Source.POD else "outside"
        return f"{taken}: it enters the node through {where}, and pods use {detector}"
    if source is Source.POD:
        return f"a pod: the address is in {detector}"
    return f"outside: the address is neither this node's nor in {detector}"


_SUMMARY: Final = {
    Action.FORWARD: "forwarded to",
    Action.LOCAL_PROXY: "accepted by kube-proxy itself, which connects to",
    Action.REJECT: "rejected with ICMP port unreachable",
    Action.DROP: "dropped without an answer",
    Action.PASS: "not touched, ordinary routing applies",
}


def _summary(verdict: Verdict) -> str:
    what, count = _SUMMARY[verdict.action], len(verdict.choices)
    if verdict.action not in {Action.FORWARD, Action.LOCAL_PROXY}:
        return f"{what}: {verdict.reason.value}" if verdict.reason else what
    if count == 1:
        return f"{what} the only endpoint that can be chosen"
    each = "client" if verdict.affinity_seconds else "connection"
    return f"{what} one of {count} endpoints, chosen for each {each}"


def _source_address(verdict: Verdict) -> str:
    if verdict.action is Action.LOCAL_PROXY:
        return "the endpoint sees an address of this node, because the proxy connects to it"
    if verdict.action is not Action.FORWARD:
        return ""
    reason = f": {verdict.why.value}" if verdict.why else ""
    rewritten = "rewritten to an address of this node"
    others = [choice for choice in verdict.choices if not choice.hairpin]
    if not others:
        return f"{rewritten}: {_HAIRPIN}"
    if others[0].masquerade:
        return f"{rewritten}{reason}"
    itself = [str(choice.backend) for choice in verdict.choices if choice.hairpin]
    but = f"; but {rewritten} for {', '.join(itself)}: {_HAIRPIN}" if itself else ""
    return f"kept{reason}{but}"


_HAIRPIN = "the client reaches itself, and its reply has to come back through this node"


_RETRIES: Final = {
    Healing.RETRY_REFUSED: "if the endpoint refuses",
    Healing.RETRY_UNANSWERED: "if the endpoint does not answer for a second",
    Healing.RETRY_REFUSED | Healing.RETRY_UNANSWERED: "if the endpoint refuses, or does not answer"
    " for a second",
}
_RETRY: Final = Healing.RETRY_REFUSED | Healing.RETRY_UNANSWERED


def _healing(verdict: Verdict) -> Iterator[str]:
    """What is done if the endpoint fails."""
    healing, count = verdict.healing, len(verdict.choices)
    here = " of this node" if verdict.local_policy else ""
    if healing & _RETRY:
        still = ", although it keeps its endpoint otherwise" if verdict.affinity_seconds else ""
        yield (
            f"{_RETRIES[healing & _RETRY]}, the client's next SYN chooses again among the {count}"
            f" endpoints{here}{still}"
        )
    elif verdict.not_healed & _RETRY and count == 1:
        yield f"connections are not retried: there is no other endpoint{here}"
    elif verdict.not_healed & _RETRY:
        yield "connections are not retried: some clients of this address have only one endpoint"
    if healing & Healing.EJECT:
        yield "an endpoint that fails often is left out for a while"
    if healing & Healing.RESET_GONE:
        yield "connections to an endpoint that has left are reset"


_FAILED: Final = {
    Reason.REFUSED: "refused",
    Reason.UNANSWERED: "not answered",
    Reason.GONE: "reset",
}


def left_out(ejection: Ejection) -> str:
    """Why an endpoint is left out, and until when on the wall clock."""
    until = datetime.fromtimestamp(ejection.until, UTC)
    return f"left out until {until:%H:%M:%S} UTC{what_failed(ejection)}; it is tried again then"


def what_failed(ejection: Ejection) -> str:
    """What an endpoint did before it was left out, to stand behind the words that it is."""
    failures, clients = ejection.failures, ejection.clients
    connections = "1 connection" if failures == 1 else f"{failures:,} connections"
    of = "1 client" if clients == 1 else f"{clients:,} clients"
    were = "was" if failures == 1 else "were"
    again = f", {ejection.times} times in a row" if ejection.times > 1 else ""
    return f"{again}: {connections} of {of} {were} {_FAILED[ejection.reason]}"


def duration(seconds: int) -> str:
    """Seconds in the largest unit that divides them."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


_REPLIES: Final = {
    Action.FORWARD: "go to the client's own address; this node, which they must pass, restores the"
    " address that the client dialled",
    Action.LOCAL_PROXY: "go through the two connections of the proxy",
    Action.REJECT: "none: the client gets an error at once (connection refused)",
    Action.DROP: "none: the client waits until it times out",
    Action.PASS: "not touched either",
}


def _replies(verdict: Verdict) -> str:
    if verdict.action is Action.FORWARD and all(each.masquerade for each in verdict.choices):
        return (
            "go to this node, which restores both addresses: the client gets them from the"
            " address that it dialled"
        )
    return _REPLIES[verdict.action]


def _warnings(verdict: Verdict, packet: Packet, context: Context) -> Iterator[str]:
    """What an operator should know although the verdict stands."""
    for choice in verdict.choices:
        if choice.backend.address == packet.source and not choice.masquerade:
            yield (
                f"{choice.backend} is the client itself, but its slice does not say that it is on"
                " this node: the source is not rewritten then, and the connection hangs"
            )
    if _replies_may_bypass(verdict, packet, context.node):
        outside = verdict.source is Source.OUTSIDE and context.node.detector is not None
        unless = "" if outside else "unless the client is on this node, "
        yield (
            f"{unless}replies of endpoints on other nodes do not pass this node: connections to"
            " them fail"
        )
    own = verdict.frontend.address if verdict.frontend else ""
    is_host = context.quirks.binds_addresses and verdict.source is Source.HOST
    if is_host and own not in {"", packet.source}:
        yield (
            f"a program of this node that chooses no source address sends from {own}, which in"
            f" {context.mode} mode is the node's own: explain that source for such programs"
        )


def _replies_may_bypass(verdict: Verdict, packet: Packet, node: NodeView) -> bool:
    """Whether a remote endpoint would answer a client that may not be on this node directly."""
    if verdict.source is Source.HOST:
        return False
    if verdict.source is Source.POD:
        # Only an address inside a range may be that of another node's pod. Traffic of such
        # a pod to a cluster IP is handled on its own node and does not come here.
        external = verdict.frontend is not None and verdict.frontend.kind.external
        if not external or isinstance(node.detector, PodInterface):
            return False
    return any(
        not choice.masquerade
        and not choice.backend.local
        and choice.backend.address != packet.source
        for choice in verdict.choices
    )


def render(explanation: Explanation) -> str:
    """The explanation as text, a fact a line."""
    head = (
        f"{explanation.source} ({explanation.source_class}) -> {explanation.destination}"
        f"   on node {explanation.node}, {explanation.mode} mode"
    )
    rows: list[tuple[str, str]] = []
    matched = explanation.matched
    if matched is not None:
        port = f", port {matched.port_name}" if matched.port_name else ""
        service = f"Service {matched.namespace}/{matched.service}{port}"
        rows.append(("frontend", f"{matched.frontend} {matched.place} of {service}"))
    rows += [("client", explanation.client), ("verdict", explanation.summary)]
    width = max((len(each.endpoint) for each in explanation.endpoints), default=0)
    rows.extend(
        ("", f"  {each.endpoint:<{width}}  {each.percent:g} %  {each.place}")
        for each in explanation.endpoints
    )
    for index, left_out in enumerate(explanation.not_chosen):
        label = "not chosen" if index == 0 else ""
        rows.append((label, f"{left_out.endpoint}: {left_out.reason}"))
    rows += [
        ("source", explanation.source_address),
        ("affinity", explanation.affinity),
        ("healing", explanation.healing),
        ("replies", explanation.replies),
        *(("note", note) for note in explanation.notes),
    ]
    return "\n".join([head, *(f"  {label:<{INDENT - 2}}{text}" for label, text in rows if text)])
