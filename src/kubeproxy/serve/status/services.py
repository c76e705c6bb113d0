"""Services in a list, and their connections: which match, in what order, a line for each.

Made in steps. Between the steps only names are kept: thousands of new objects would call the
garbage collector. What has gone by the next step is left out.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from kubeproxy.base.inet import Family, join, parse_address
from kubeproxy.base.steps import Steps
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.explain.destination import split_port
from kubeproxy.explain.words import left_out
from kubeproxy.serve.status.report import timestamp
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.status.wire import ServiceList, ServiceRates, ServiceSummary, json_items
from kubeproxy.serve.traffic.totals import NOTHING, TrafficWindow
from kubeproxy.table.claims import Conflict
from kubeproxy.table.entries import PRECEDENCE, Entry, FrontendKind, ServicePortName

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

T = TypeVar("T")

Ports = Sequence[tuple[FamilyState, Entry]]
"""The service ports of a Service, family by family."""
Lost = Mapping[tuple[Family, ServicePortName], Sequence[Conflict]]
"""The addresses that a service port did not get."""
_OF_ADDRESSES: Final = frozenset("0123456789abcdef.:")
_RUN: Final = 256
"""So many are sorted in one step."""


# --- which ------------------------------------------------------------------------------------


class Sort(Enum):
    """The order: by name, or the Services with most connections first."""

    NAME = "name"
    CONNECTIONS = "connections"
    RATE = "rate"


class Search(msgspec.Struct, frozen=True):
    """Which Services, in what order, and how many at most; 0 is all.

    With `problems`, only those with which something is wrong. The first `offset` are left out.
    """

    text: str = ""
    sort: Sort = Sort.NAME
    limit: int = 500
    problems: bool = False
    offset: int = 0


class SearchText(NamedTuple):
    """A search text: part of a name, of a frontend's address, or of an endpoint's.

    `endpoint` is what endpoints' addresses are searched for, "" when the text can be part of none.
    """

    text: str = ""
    endpoint: str = ""

    def fits(self, service: ObjectKey, ports: Ports, slices: Iterable[Slice]) -> bool:
        """Whether the name, a frontend, or an endpoint, used or not, matches."""
        if self.text in str(service).lower():
            return True
        frontends = (frontend for _, entry in ports for frontend in entry.frontends)
        if any(self.text in join(frontend.address, frontend.port) for frontend in frontends):
            return True
        endpoints = (endpoint for each in slices for endpoint in each.endpoints)
        return self.endpoint != "" and any(self.endpoint in each.address for each in endpoints)


def search_text(text: str) -> SearchText:
    """The search that a text means; `ADDRESS:PORT` finds the endpoints of the address."""
    text = text.strip().lower()
    host, port = split_port(text)
    bare = text.strip("[]")
    address = (parse_address(host.strip("[]")) if port.isdigit() else None) or parse_address(bare)
    return SearchText(text, address or (bare if _OF_ADDRESSES.issuperset(bare) else ""))


# --- a line for each --------------------------------------------------------------------------


def summary(service: ObjectKey, ports: Ports, lost: Lost) -> ServiceSummary:
    """A Service in one line."""
    connections, per_second = together((family.look, entry.name) for family, entry in ports)
    frontends = [frontend for _, entry in ports for frontend in entry.frontends]
    frontends.sort(key=lambda frontend: PRECEDENCE[frontend.kind])
    return ServiceSummary(
        namespace=service.namespace,
        service=service.name,
        addresses=tuple(dict.fromkeys(f.address for f in frontends if f.address)),
        ports=tuple(dict.fromkeys(port_text(entry) for _, entry in ports)),
        node_ports=tuple(
            dict.fromkeys(f.port for f in frontends if f.kind is FrontendKind.NODE_PORT)
        ),
        endpoints=sum(entry.endpoints for _, entry in ports),
        endpoints_used=sum(len({*entry.cluster, *entry.local}) for _, entry in ports),
        connections=connections,
        per_second=per_second,
        problems=tuple(_problems(ports, lost)),
    )


def port_text(entry: Entry) -> str:
    """`[NAME:]PORT/PROTOCOL`; without the number when others have all of its addresses."""
    dialled = (f.port for f in entry.frontends if f.kind is not FrontendKind.NODE_PORT)
    parts = (entry.name.port, str(next(dialled, "")))
    return f"{':'.join(part for part in parts if part)}/{entry.protocol.name}"


def _problems(ports: Ports, lost: Lost) -> Iterator[str]:
    unserved = [each for each in ports if not each[1].has_endpoints]
    if len(unserved) == len(ports):
        yield "no endpoint can serve"
        unserved = []
    for state, entry in unserved:
        yield f"{port_text(entry)} {state.family.value}: no endpoint can serve"
    for state, entry in ports:
        reason = state.failed.get(entry.name)
        if reason is not None:
            yield f"{port_text(entry)} {state.family.value}: not programmed: {reason}"
        for conflict in lost.get((state.family, entry.name), ()):
            yield f"{conflict.key} is served by {conflict.winner}"
        for ejection in state.left_out.get(entry.name, ()):
            yield f"{port_text(entry)}: {join(*ejection.endpoint)} is {left_out(ejection)}"


def losers(state: State) -> Lost:
    """The conflicts of each service port that did not get an address."""
    found: dict[tuple[Family, ServicePortName], list[Conflict]] = {}
    for family, each in state.families.items():
        for conflict in each.builder.conflicts():
            found.setdefault((family, conflict.loser), []).append(conflict)
    return found


def list_pieces(found: ServiceList) -> Iterator[bytes]:
    """The list as JSON, a Service at a time: `services` is its last field."""
    yield msgspec.json.encode(msgspec.structs.replace(found, services=())).removesuffix(b"]}")
    yield from json_items(found.services)
    yield b"]}"


# --- connections ------------------------------------------------------------------------------


def together(
    ports: Iterable[tuple[TrafficWindow | None, ServicePortName]],
) -> tuple[int | None, float | None]:
    """The connections of several service ports, and those of a second; None if not known."""
    counted = [(look, name) for look, name in ports if look is not None]
    tallies = [look.now.tallies.get(name, NOTHING) for look, name in counted]
    rates = [_rate(look, name) for look, name in counted if look.before is not None]
    total = sum(sum(tally.frontends.values()) for tally in tallies)
    return (total if tallies else None), (sum(rates) if rates else None)


def _rate(look: TrafficWindow, name: ServicePortName) -> float:
    """Connections per second. Most service ports are idle, and an idle one has the same tally."""
    if look.before and look.before.tallies.get(name) is look.now.tallies.get(name):
        return 0.0
    rates = look.rates(name)
    return sum(rates.frontends.values()) if rates else 0.0


def rates(state: State) -> Steps[ServiceRates]:
    """Connections per second of the Services that have any."""
    services: dict[str, float] = {}
    looks = [each.look for each in state.families.values() if each.look and each.look.before]
    for look in looks:
        for name in tuple(look.now.tallies):
            rate = _rate(look, name)
            if rate:
                service = f"{name.namespace}/{name.service}"
                services[service] = services.get(service, 0.0) + rate
            yield
    seconds = max((look.seconds for look in looks), default=0.0)
    return ServiceRates(timestamp(state.now), round(seconds, 3), services)


# --- the list ---------------------------------------------------------------------------------


def service_list(state: State, search: Search) -> Steps[ServiceList]:
    """The Services that match a search."""
    known: dict[ObjectKey, None] = {}
    for each in state.families.values():
        for key in tuple(each.builder.services()):
            known[key] = None
            yield
    lost: Lost = losers(state)
    lines: list[ServiceSummary] = []
    matching = yield from _matching(state, list(known), search.text)
    if search.problems:
        matching = yield from _with_problems(state, matching, lost)
    shown = (yield from _sorted(state, matching, search))[search.offset :]
    for key in shown:
        ports = _ports(state, key)
        if ports:
            lines.append(summary(key, ports, lost))
        yield
    return ServiceList(
        mode=state.config.mode,
        total=len(known),
        matching=len(matching),
        counts_connections=state.counts_connections,
        services=tuple(lines),
    )


def _ports(state: State, key: ObjectKey) -> Ports:
    """The service ports of a Service as they are now."""
    families = state.families.values()
    return [(each, entry) for each in families for entry in each.builder.entries_of(key)]


def _matching(state: State, services: list[ObjectKey], text: str) -> Steps[list[ObjectKey]]:
    if not text.strip():
        return services
    wanted, found = search_text(text), []
    for key in services:
        by_family = (state.cluster.slices(family, key).values() for family in state.families)
        if wanted.fits(key, _ports(state, key), chain.from_iterable(by_family)):
            found.append(key)
        yield
    return found


def _with_problems(state: State, services: list[ObjectKey], lost: Lost) -> Steps[list[ObjectKey]]:
    found = []
    for key in services:
        if any(_problems(_ports(state, key), lost)):
            found.append(key)
        yield
    return found


def _sorted(state: State, services: list[ObjectKey], search: Search) -> Steps[list[ObjectKey]]:
    count = search.limit and search.offset + search.limit
    if search.sort is Sort.NAME:
        return (yield from first_of(services, lambda key: key, count))
    most: dict[ObjectKey, float] = {}
    for key in services:
        total, rate = together((family.look, entry.name) for family, entry in _ports(state, key))
        most[key] = (total if search.sort is Sort.CONNECTIONS else rate) or 0
        yield
    return (yield from first_of(services, lambda key: (-most[key], key), count))


def first_of(
    items: Sequence[T], key: "Callable[[T], SupportsRichComparison]", count: int = 0
) -> Steps[list[T]]:
    """The first `count` of the items in the order of their keys; all of them when it is 0."""
    runs = []
    for start in range(0, len(items), _RUN):
        runs.append(sorted(items[start : start + _RUN], key=key))
        yield
    found = []
    for item in islice(heapq.merge(*runs, key=key), count or None):
        found.append(item)
        yield
    return found
