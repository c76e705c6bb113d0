"""From events to connections that are shown: which are traced, what became of each, and bounds.

Most events of a busy node are about others: `place_of` rejects these by comparing bytes.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError, OperatorError
from kubeproxy.base.inet import (
    PROTOCOL_BY_NAME,
    Prefix,
    Protocol,
    contains,
    family_of,
    join,
    network,
    pack,
    parse_address,
    parse_prefix,
    unpack,
)
from kubeproxy.explain.destination import port_number, split_port
from kubeproxy.linux.netlink.conntrack import Connection, Dialled, connection_in, dialled
from kubeproxy.serve.status.wire import (
    EndpointDetail,
    FailedConnections,
    FrontendDetail,
    PortDetail,
    ServiceDetail,
)
from kubeproxy.serve.status.words import plural
from kubeproxy.tools.trace.outcomes import Outcome

NOT_TRANSLATED: Final = "not translated"
NODE_PORT: Final = "node-port"
_NO_ENDPOINT: Final = b""
UNKNOWN: Final = "?"
ELSEWHERE: Final = "elsewhere"
"""The node of an endpoint whose node is another, and has no name here."""
MOST: Final = 20
WHAT: Final = {
    "refused": "refused, retried",
    "unanswered": "no answer, retried",
    "gone": "reset: endpoint is gone",
}
"""What became of connections that an endpoint failed, by the reason."""


class Watched(msgspec.Struct, frozen=True):
    """A service port in one family. `name` is "" when only an address is known."""

    name: str
    port: PortDetail


class Traced(msgspec.Struct, frozen=True):
    """A connection of a watched service port; its ends are `address:port`.

    `endpoint` is None when the destination was not translated: the client reached that address
    itself. `detail` is None when the endpoint is unknown. `seen` is the source that it sees.
    `outcome` is whether it was answered.
    """

    watched: Watched
    frontend: FrontendDetail
    ip_family: str
    client: str
    destination: str
    endpoint: str | None
    detail: EndpointDetail | None
    seen: str
    connection: Connection
    outcome: Outcome = Outcome.WAITING


class Failed(msgspec.Struct, frozen=True):
    """Connections of a watched service port that an endpoint failed, as the daemon reports them.

    `detail` is None when the endpoint is unknown.
    """

    watched: Watched
    frontend: FrontendDetail
    detail: EndpointDetail | None
    reported: FailedConnections

    @property
    def what(self) -> str:
        """What became of them."""
        what = WHAT.get(self.reported.reason, self.reported.reason)
        times = self.reported.times
        return what if times == 1 else f"{what} ({times:,} times)"


class Refusal(msgspec.Struct, frozen=True):
    """A connection that the rules refuse or drop: `what` they do, and why; both for people.

    `verdict` and `reason` are for programs.
    """

    watched: Watched
    frontend: FrontendDetail
    ip_family: str
    client: str
    destination: str
    verdict: str
    reason: str
    what: str
    why: str


Shown = Traced | Failed | Refusal
"""What a row is about."""


# --- which service ports ----------------------------------------------------------------------


def watched_address(address: str, port: int, protocol: Protocol) -> Watched:
    """An address, of which nothing else is known."""
    frontend = FrontendDetail("", address, port)
    family = family_of(address).value
    return Watched("", PortDetail("", protocol.name, family, (frontend,), (), ""))


def watched_ports(
    service: ServiceDetail, port: str = "", protocol: Protocol | None = None
) -> list[Watched]:
    """The ports of a Service that are meant, by name or number and by protocol; "" for all."""
    name = f"{service.namespace}/{service.service}"
    found = [
        Watched(f"{name}:{each.name}" if each.name else name, each)
        for each in service.ports
        if protocol in (None, PROTOCOL_BY_NAME[each.protocol])
        and port in ("", each.name, *(str(frontend.port) for frontend in each.frontends))
    ]
    if not found:
        listed = ", ".join(dict.fromkeys(_shown_ports(service.ports)))
        has = f"it has {listed}" if listed else "it has no port that is served here"
        raise OperatorError(f"Service {name} has no such port: {has}")
    return found


def _shown_ports(ports: Iterable[PortDetail]) -> Iterator[str]:
    for port in ports:
        for frontend in port.frontends[:1]:
            number = f"{frontend.port}/{port.protocol}"
            yield f"{port.name} ({number})" if port.name else number


def remarks(watched: Iterable[Watched]) -> Iterator[str]:
    """What people should know where refused connections are not shown."""
    for each in watched:
        if each.name and not any(endpoint.used for endpoint in each.port.endpoints):
            yield (
                f"note: {each.name} has no {each.port.ip_family} endpoint that is used: "
                "connections to it end before they are tracked, so none will show"
            )


# --- which connections ------------------------------------------------------------------------

Place = tuple[Watched, FrontendDetail]


class Index(msgspec.Struct, frozen=True):
    """The watched service ports by what events say.

    The keys of `places` are as in `Dialled`, those of node ports without the address. `own` are
    the addresses of this node, on which node ports are served.
    """

    places: Mapping[tuple[bytes, ...], Place]
    endpoints: Mapping[bytes, EndpointDetail]
    own: frozenset[bytes]


def index(watched: Iterable[Watched], own: Iterable[str]) -> Index:
    """The index of these; of two that have the same frontend the first counts."""
    places: dict[tuple[bytes, ...], Place] = {}
    endpoints: dict[bytes, EndpointDetail] = {}
    for each in watched:
        protocol = bytes([PROTOCOL_BY_NAME[each.port.protocol]])
        for frontend in each.port.frontends:
            address = () if frontend.kind == NODE_PORT else (pack(frontend.address),)
            key = (*address, protocol, frontend.port.to_bytes(2, "big"))
            places.setdefault(key, (each, frontend))
        for endpoint in each.port.endpoints:
            endpoints[pack(endpoint.address) + endpoint.port.to_bytes(2, "big")] = endpoint
    return Index(places, endpoints, frozenset(map(pack, own)))


def place_of(known: Index, to: Dialled) -> Place | None:
    """The service port that was dialled; None when it is not watched."""
    return known.places.get(to) or known.places.get(to[1:])


def is_of(known: Index, place: Place, connection: Connection) -> bool:
    """Whether the connection is of that place: a node port may be another node's."""
    return (
        place[1].kind != NODE_PORT
        or connection.destination[:-2] in known.own
        or connection.responder in known.endpoints
    )


def describe(known: Index, place: Place, connection: Connection) -> Traced:
    """What became of a connection of that place."""
    watched, frontend = place
    to, responder = connection.destination, connection.responder
    detail = known.endpoints.get(responder)
    return Traced(
        watched=watched,
        frontend=frontend,
        ip_family=family_of(unpack(to[:-2])).value,
        client=shown_end(connection.client),
        destination=shown_end(to),
        endpoint=shown_end(responder) if detail or responder != to else None,
        detail=detail,
        seen=shown_end(connection.seen),
        connection=connection,
    )


def shown_end(end: bytes) -> str:
    """`address:port` of both in network order."""
    return join(unpack(end[:-2]), int.from_bytes(end[-2:], "big"))


# --- filters ----------------------------------------------------------------------------------


class Filter(msgspec.Struct, frozen=True):
    """One of the clients and one of the endpoints; where there are none, any.

    Endpoints are packed addresses, with or without a port.
    """

    clients: tuple[Prefix, ...] = ()
    endpoints: frozenset[bytes] = frozenset()

    def accepts(self, connection: Connection) -> bool:
        """Whether the connection is one of those."""
        client = unpack(connection.client[:-2]) if self.clients else ""
        return self.fits(client, connection.responder)

    def fits(self, client: str, endpoint: bytes) -> bool:
        """Whether a client and an endpoint are of those."""
        if self.clients and not any(contains(prefix, client) for prefix in self.clients):
            return False
        return not self.endpoints or not self.endpoints.isdisjoint((endpoint, endpoint[:-2]))


def parse_filter(clients: Iterable[str], endpoints: Iterable[str]) -> Filter:
    """The filter that the texts of --from and --endpoint name."""
    return Filter(tuple(map(_client, clients)), frozenset(map(_endpoint, endpoints)))


def _client(text: str) -> Prefix:
    address = parse_address(text.strip("[]"))
    prefix = network(address, family_of(address).bits) if address else parse_prefix(text)
    if prefix is None:
        raise FieldError("from", text, "it is neither an address nor a CIDR")
    return prefix


def _endpoint(text: str) -> bytes:
    host, port = split_port(text)
    address = parse_address(host.strip("[]"))
    if address is None:
        raise FieldError("endpoint", text, "it is no ADDRESS[:PORT]")
    packed = pack(address)
    return packed + port_number(port, "endpoint", text).to_bytes(2, "big") if port else packed


# --- the trace --------------------------------------------------------------------------------


LATEST = 1000


class Bounds(msgspec.Struct, frozen=True):
    """What is wanted, and how much: 0 is no bound.

    `count` connections are shown, for `seconds`, `rate` in each of them.
    """

    wanted: Filter = Filter()
    count: int = 0
    seconds: float = 0
    rate: int = 0


class Trace:
    """Shows the connections that are wanted, at most `rate` a second, and counts all.

    `known` are the service ports that are traced; it may be replaced at any time.
    """

    def __init__(self, known: Index, bounds: Bounds, show: Callable[[Shown], None]) -> None:
        self.known = known
        self.bounds = bounds
        self.seen = 0
        self.shown = 0
        self.failures: Counter[tuple[str, str]] = Counter()
        """Failures by endpoint and reason."""
        self.failures_shown = 0
        self.refusals: Counter[tuple[str, str, str]] = Counter()
        """Refused and dropped connections by service port, what was done, and why."""
        self.refusals_shown = 0
        self._show = show
        self._in_this_second = 0
        self._held_back = 0
        self._endpoints: Counter[bytes] = Counter()
        self.latest: deque[Connection] = deque(maxlen=LATEST)
        """Those that were shown last."""

    @property
    def is_complete(self) -> bool:
        """Whether as many were shown as were asked for."""
        return 0 < self.bounds.count <= self.shown + self.refusals_shown

    def take(self, event: bytes) -> None:
        """One more connection of this node."""
        to = dialled(event)
        place = place_of(self.known, to) if to else None
        connection = connection_in(event) if place else None
        if place is None or connection is None or not is_of(self.known, place, connection):
            return
        if not self.bounds.wanted.accepts(connection):
            return
        self._count(connection)
        if self._has_room():
            self.shown += 1
            self.latest.append(connection)
            self._show(describe(self.known, place, connection))

    def take_failed(self, failed: Failed) -> None:
        """Connections that are wanted have failed."""
        reported = failed.reported
        self.failures[reported.endpoint, reported.reason] += reported.times
        if self._has_room():
            self.failures_shown += reported.times
            self._show(failed)

    def take_refused(self, refused: Refusal) -> None:
        """The rules refuse or drop a connection that is wanted."""
        self.refusals[refused.watched.name, refused.what, refused.why] += 1
        if self._has_room():
            self.refusals_shown += 1
            self._show(refused)

    def hold_back(self) -> None:
        """There was something in this second that cannot be shown."""
        self._held_back += 1

    def _has_room(self) -> bool:
        """Whether one more may be shown in this second; it is counted."""
        has_room = not self.bounds.rate or self._in_this_second < self.bounds.rate
        self._in_this_second += has_room
        self._held_back += not has_room
        return has_room

    def _count(self, connection: Connection) -> None:
        self.seen += 1
        is_translated = connection.responder != connection.destination
        self._endpoints[connection.responder if is_translated else _NO_ENDPOINT] += 1

    def begin_second(self) -> int:
        """Begin a new second; how many were not shown in the one that is over."""
        held_back = self._held_back
        self._in_this_second = self._held_back = 0
        return held_back

    def summary(self, lost: int) -> Iterator[str]:
        """Lines for people; `lost` are events of the whole node that came too fast."""
        events = f"{lost:,} events of this node lost" if lost else "nothing lost"
        yield f"{plural(self.seen, 'connection')}, {self.shown:,} shown, {events}"
        most = self._endpoints.most_common(MOST)
        counts = [(shown_end(end) if end else NOT_TRANSLATED, count) for end, count in most]
        width = max((len(name) for name, _ in counts), default=0)
        for name, count in counts:
            yield f"  {name:{width}}  {count:,}"
        more = len(self._endpoints) - len(counts)
        if more:
            yield f"  and {more:,} more endpoints"
