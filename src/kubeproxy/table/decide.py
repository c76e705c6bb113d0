"""What the table means: what happens to the first packet of a connection, and why.

Every dataplane is tested against this function with real packets; `explain` prints its verdicts.
Packets of an existing connection follow their conntrack entry: they are not looked at again.
"""

from enum import Enum
from fractions import Fraction

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Protocol, contains
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKey,
    FrontendKind,
    ServicePortName,
    Table,
)
from kubeproxy.table.node import NodeView, PodCIDR
from kubeproxy.table.policy import Refusal, Scope, Source, Why
from kubeproxy.table.quirks import Loopback, Quirks
from kubeproxy.table.route import Route, healing_of, route


class Packet(msgspec.Struct, frozen=True):
    """The first packet of a connection, before any rule changed it.

    `protocol` is None for all but TCP, UDP and SCTP, such as an ICMP echo. `interface` is where
    it entered the node; "" when the node itself sent it.
    """

    source: str
    destination: str
    protocol: Protocol | None
    port: int
    interface: str = ""


class Action(Enum):
    """What happens to the packet."""

    FORWARD = "forward"
    LOCAL_PROXY = "local proxy"
    REJECT = "reject"
    DROP = "drop"
    PASS = "pass"  # noqa: S105  # a verdict, not a password


class Reason(Enum):
    """Why a packet is not forwarded, or not touched."""

    NO_ENDPOINTS = "the service has no endpoint that can serve"
    NO_LOCAL_ENDPOINTS = (
        "the traffic policy is Local and no endpoint on this node can serve, "
        "though some elsewhere can"
    )
    SOURCE_RANGES = "the source is in none of spec.loadBalancerSourceRanges"
    UNDEFINED_PORT = "a service has this address, but not this port and protocol"
    UNALLOCATED = "the address is in a service range, but no service has it"
    LOCALHOST_OFF = "node ports of the loopback address are not served"
    LOCALHOST_NOT_TCP = "node ports of the loopback address are served for TCP only"
    LOCALHOST_ONE_ADDRESS = "of all loopback addresses only 127.0.0.1 and ::1 serve node ports"
    NOT_NODE_PORT_ADDRESS = "node ports are not served on this address (nodePortAddresses)"
    NOT_RELAYED = "userspace mode relays TCP and UDP: Services of SCTP are not served"
    NOT_CHECKED_ON_OUTPUT = (
        "the service has no endpoint that can serve, but iptables mode does not check what the "
        "node itself sends to external addresses"
    )
    NOT_OWN_ADDRESS = (
        "the port is a node port, but the address is not known as one of this node, "
        "and no service has it"
    )
    NO_FRONTEND = "no service has this address, protocol and port"


class Override(Enum):
    """Why a mode treats a source address otherwise than the policy says."""

    LOOPBACK = "ipvs mode never rewrites a loopback address"
    FROM_CLUSTER_IP = "the source is itself a cluster IP: this node used it to reach the service"
    NODE_PORT_NUMBER = (
        "the port is also the number of a node port, and ipvs mode rewrites the source "
        "wherever that number is dialled, cluster IPs included"
    )


class Choice(msgspec.Struct, frozen=True):
    """A backend that may be chosen, how often, and whether the source address is rewritten."""

    backend: Backend
    share: Fraction
    masquerade: bool
    hairpin: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What happens to a packet and why. `service` and `frontend` are what it matched.

    `healing` is what is done if the endpoint fails, `not_healed` what was asked for and cannot be
    done, because there is no other endpoint.
    """

    action: Action
    source: Source
    reason: Reason | None = None
    service: ServicePortName | None = None
    frontend: Frontend | None = None
    choices: tuple[Choice, ...] = ()
    why: Why | Override | None = None
    local_policy: bool = False
    affinity_seconds: int = 0
    healing: Healing = Healing.NONE
    not_healed: Healing = Healing.NONE


class _Question(msgspec.Struct, frozen=True):
    """A packet and all that its verdict depends on."""

    packet: Packet
    table: Table
    node: NodeView
    quirks: Quirks
    source: Source

    def answer(
        self,
        action: Action,
        reason: Reason,
        matched: "_Match | None" = None,
        *,
        local: bool = False,
    ) -> Verdict:
        service = matched.entry.name if matched else None
        frontend = matched.frontend if matched else None
        return Verdict(action, self.source, reason, service, frontend, local_policy=local)


class _Match(msgspec.Struct, frozen=True):
    """A frontend that the packet is addressed to."""

    entry: Entry
    frontend: Frontend


def decide(packet: Packet, table: Table, node: NodeView, quirks: Quirks) -> Verdict:
    """What happens to the packet on this node."""
    question = _Question(packet, table, node, quirks, classify(packet, node))
    for step in _STEPS:
        verdict = step(question)
        if verdict is not None:
            return verdict
    is_node_port = _match(question, "", packet.port) is not None
    reason = Reason.NOT_OWN_ADDRESS if is_node_port else Reason.NO_FRONTEND
    return question.answer(Action.PASS, reason)


def classify(packet: Packet, node: NodeView) -> Source:
    """Where the packet comes from. A host address inside the pod range counts as a pod's."""
    detector = node.detector
    if isinstance(detector, PodCIDR):
        if contains(detector.prefix, packet.source):
            return Source.POD
    elif detector is not None and packet.interface:
        matches = packet.interface.startswith if detector.prefix else packet.interface.__eq__
        if matches(detector.name):
            return Source.POD
    return Source.HOST if node.is_own(packet.source) else Source.OUTSIDE


# Steps: each gives the verdict, or None to let the packet go on to the next.


def _not_relayed(q: _Question) -> Verdict | None:
    """What a proxy that makes the connections itself cannot pass on."""
    if not q.quirks.relays or q.packet.protocol is not Protocol.SCTP:
        return None
    match = _match(q, q.packet.destination, q.packet.port) or _match(q, "", q.packet.port)
    return None if match is None else q.answer(Action.PASS, Reason.NOT_RELAYED, match)


def _service_ip(q: _Question) -> Verdict | None:
    """Frontends with an address of their own: the firewall of load balancers, then the route."""
    match = _match(q, q.packet.destination, q.packet.port)
    if match is None:
        return None
    if _is_firewalled(q, match) and not _is_allowed(q, match.entry):
        return q.answer(Action.DROP, Reason.SOURCE_RANGES, match)
    chosen = _route(q, match)
    if chosen.refusal is not None and match.frontend.kind.external and not q.quirks.checks_output:
        return _refuse_on_input(q, match, chosen)
    return _apply(q, match, chosen)


def _refuse_on_input(q: _Question, match: _Match, chosen: Route) -> Verdict:
    """Refuse what is forwarded or delivered here, unless it is for a node port that serves."""
    if q.node.is_own(q.packet.destination):
        node_port = _node_port(q)
        if node_port is not None and node_port.action is Action.FORWARD:
            return node_port
    elif q.source is Source.HOST:
        return q.answer(Action.PASS, Reason.NOT_CHECKED_ON_OUTPUT, match)
    return _apply(q, match, chosen)


def _loopback_node_port(q: _Question) -> Verdict | None:
    """Node ports of loopback addresses: served by the proxy itself, or rejected."""
    match = _match(q, "", q.packet.port)
    by_proxy = q.quirks.loopback_node_ports is Loopback.PROXY and q.node.localhost_gate
    if match is None or not by_proxy or not q.node.is_loopback(q.packet.destination):
        return None
    if not q.node.serves_loopback_by_proxy():
        return q.answer(Action.REJECT, Reason.LOCALHOST_OFF, match)
    if q.packet.protocol is not Protocol.TCP:
        return q.answer(Action.REJECT, Reason.LOCALHOST_NOT_TCP, match)
    if q.packet.destination not in {"127.0.0.1", "::1"}:
        return q.answer(Action.PASS, Reason.LOCALHOST_ONE_ADDRESS, match)
    entry = match.entry
    scope = entry.external.outside.scope
    local = scope is Scope.LOCAL
    backends = entry.backends(scope)
    if not backends:  # the proxy listens only while there is an endpoint
        return q.answer(Action.PASS, _why_refused(entry), match, local=local)
    share = Fraction(1, len(backends))
    return Verdict(
        Action.LOCAL_PROXY,
        q.source,
        service=entry.name,
        frontend=match.frontend,
        choices=tuple(Choice(backend, share, masquerade=True) for backend in backends),
        local_policy=local,
        affinity_seconds=entry.affinity_seconds,
    )


def _node_port(q: _Question) -> Verdict | None:
    """Node ports, on the addresses that serve them."""
    match = _match(q, "", q.packet.port)
    if match is None or not q.node.is_own(q.packet.destination):
        return None
    if q.node.accepts_node_ports(q.packet.destination, q.quirks):
        return _apply(q, match, _route(q, match))
    # Elsewhere pods and the node itself get no other endpoints than clients outside.
    outside = _route(q, match, Source.OUTSIDE)
    if q.quirks.refuses_on_all_addresses and outside.refusal is not None:
        return _apply(q, match, outside)
    loopback = q.node.is_loopback(q.packet.destination)
    reason = Reason.LOCALHOST_OFF if loopback else Reason.NOT_NODE_PORT_ADDRESS
    return q.answer(Action.PASS, reason, match)


def _undefined_port(q: _Question) -> Verdict | None:
    """Cluster IPs, on ports that no service has; with bound addresses all addresses of services.

    An external address that another interface has is not bound.
    """
    address = q.packet.destination
    is_cluster_ip = q.table.is_cluster_ip(address)
    if q.quirks.binds_addresses:
        is_refused = is_cluster_ip or (
            q.table.is_service_ip(address) and address not in q.node.addresses
        )
    else:
        is_refused = is_cluster_ip and q.quirks.rejects_undefined_ports
    return q.answer(Action.REJECT, Reason.UNDEFINED_PORT) if is_refused else None


def _unallocated(q: _Question) -> Verdict | None:
    """Addresses of the service ranges that no service has."""
    if not q.quirks.drops_unallocated:
        return None
    if not any(contains(cidr, q.packet.destination) for cidr in q.node.service_cidrs):
        return None
    return q.answer(Action.DROP, Reason.UNALLOCATED)


_STEPS = (
    _not_relayed,
    _service_ip,
    _loopback_node_port,
    _node_port,
    _undefined_port,
    _unallocated,
)


def _match(q: _Question, address: str, port: int) -> _Match | None:
    if q.packet.protocol is None:
        return None
    key = FrontendKey(address, q.packet.protocol, port)
    entry = q.table.find(key)
    frontend = entry.find(key) if entry else None
    return None if entry is None or frontend is None else _Match(entry, frontend)


def _is_firewalled(q: _Question, match: _Match) -> bool:
    """Whether source ranges are checked.

    What is sent from a bound address is checked only if it is sent to that same address, as
    programs of the node do by default, and is on its way to an endpoint.
    """
    if match.frontend.kind is not FrontendKind.LOAD_BALANCER:
        return False
    if match.entry.source_ranges is None:
        return False
    if _is_sent_here(q):
        return q.packet.source == q.packet.destination and bool(_route(q, match).backends)
    return q.quirks.firewalls_idle or match.entry.serves(match.frontend.kind)


def _is_sent_here(q: _Question) -> bool:
    """Whether a node that has the addresses of services as its own is the sender."""
    if not q.quirks.binds_addresses:
        return False
    return q.source is Source.HOST or q.table.is_service_ip(q.packet.source)


def _is_allowed(q: _Question, entry: Entry) -> bool:
    source = q.packet.source
    if _is_sent_here(q):
        return entry.own_vips
    if any(contains(range_, source) for range_ in entry.source_ranges or ()):
        return True
    return entry.own_vips and source in entry.addresses(FrontendKind.LOAD_BALANCER)


def _route(q: _Question, match: _Match, source: Source | None = None) -> Route:
    kind, masquerading = match.frontend.kind, q.node.masquerading
    return route(match.entry, kind, source or q.source, masquerading, q.quirks)


def _override(q: _Question, match: _Match, chosen: Route) -> Override | None:
    """What makes the mode decide against the policy about the source address, if anything."""
    if not q.quirks.rewrites_loopback and q.node.is_loopback(q.packet.source):
        return Override.LOOPBACK if chosen.masquerade else None
    if not q.quirks.rewrites_by_set or chosen.masquerade or match.frontend.kind.external:
        return None
    if q.node.detector is None and q.table.is_cluster_ip(q.packet.source):
        return Override.FROM_CLUSTER_IP
    # Masquerading of node ports matches the number on any local address, and a cluster IP is one.
    node_port = _match(q, "", q.packet.port)
    if node_port is None or not node_port.entry.external.outside.masquerade:
        return None
    return None if q.packet.protocol is Protocol.SCTP else Override.NODE_PORT_NUMBER


def _apply(q: _Question, match: _Match, chosen: Route) -> Verdict:
    """Forward the packet to one of the route's backends, or refuse it."""
    local = chosen.scope is Scope.LOCAL
    if chosen.refusal is not None:
        action = Action.REJECT if chosen.refusal is Refusal.REJECT else Action.DROP
        return q.answer(action, _why_refused(match.entry), match, local=local)
    share = Fraction(1, len(chosen.backends))
    override = _override(q, match, chosen)
    masquerade = chosen.masquerade if override is None else not chosen.masquerade
    asked = match.entry.healing if q.quirks.heals else Healing.NONE
    healing = asked & healing_of(match.entry, match.frontend.kind)
    return Verdict(
        Action.FORWARD,
        q.source,
        service=match.entry.name,
        frontend=match.frontend,
        choices=tuple(
            _choice(q, backend, share, masquerade=masquerade) for backend in chosen.backends
        ),
        why=override or chosen.why,
        local_policy=local,
        affinity_seconds=match.entry.affinity_seconds,
        healing=healing,
        not_healed=asked & ~healing,
    )


def _choice(q: _Question, backend: Backend, share: Fraction, *, masquerade: bool) -> Choice:
    itself = q.packet.source == backend.address
    hairpin = itself and (backend.local or q.quirks.hairpin_by_address)
    return Choice(backend, share, masquerade or hairpin, hairpin)


def _why_refused(entry: Entry) -> Reason:
    return Reason.NO_LOCAL_ENDPOINTS if entry.has_endpoints else Reason.NO_ENDPOINTS
