"""Services in a list: which of them are meant, and a line for each. Functions on values only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from kubeproxy.base.inet import Family, join, parse_address
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.serve.status.connections import Looks, together
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from kubeproxy.table.claims import Conflict
from kubeproxy.table.entries import (
    PRECEDENCE,
    Entry,
    FrontendKind,
    ServiceName,
    ServicePortName,
)

_OF_ADDRESSES: Final = frozenset("0123456789abcdef.:")


class Service(msgspec.Struct, frozen=True):
    """A Service: what the tables have of it, family by family."""

    name: ServiceName
    ports: list[tuple[Family, Entry]]

    def names(self) -> Iterator[tuple[Family, ServicePortName]]:
        """Its service ports."""
        return ((family, entry.name) for family, entry in self.ports)


class Troubles(msgspec.Struct, frozen=True):
    """What went wrong in one family: service ports that are not programmed, and who lost what."""

    failed: Mapping[ServicePortName, str] = {}
    lost: Mapping[ServicePortName, Sequence[Conflict]] = {}


def losers(conflicts: Iterable[Conflict]) -> dict[ServicePortName, list[Conflict]]:
    """The conflicts of each service port that did not get what it claims."""
    found: dict[ServicePortName, list[Conflict]] = {}
    for conflict in conflicts:
        found.setdefault(conflict.loser, []).append(conflict)
    return found


# --- which ------------------------------------------------------------------------------------


class Sort(Enum):
    """What comes first: by name, or whoever has the most."""

    NAME = "name"
    CONNECTIONS = "connections"
    RATE = "rate"


class Wanted(msgspec.Struct, frozen=True):
    """What somebody looks for: a part of a name, of an address that is dialled, of an endpoint's.

    `endpoint` is what endpoints' addresses are searched for, "" when the text can be part of none.
    """

    text: str = ""
    endpoint: str = ""

    def fits(self, service: Service) -> bool:
        """Whether the name or a frontend of the Service is meant."""
        if self.text in str(service.name).lower():
            return True
        return any(
            self.text in join(frontend.address, frontend.port)
            for _, entry in service.ports
            for frontend in entry.frontends
        )

    def is_among(self, slices: Iterable[Slice]) -> bool:
        """Whether an endpoint of the slices, used or not, is meant."""
        wanted = self.endpoint
        return wanted != "" and any(
            wanted in endpoint.address for each in slices for endpoint in each.endpoints
        )


def wanted(text: str) -> Wanted:
    """What a text looks for; `ADDRESS:PORT` finds the endpoints of the address."""
    text = text.strip().lower()
    host, colon, port = text.rpartition(":")
    address = parse_address(host.strip("[]")) if colon and port.isdigit() else None
    if address is not None and parse_address(text) is None:
        return Wanted(text, address)
    bare = text.strip("[]")
    address = parse_address(bare)
    return Wanted(text, address or (bare if _OF_ADDRESSES.issuperset(bare) else ""))


# --- a line for each --------------------------------------------------------------------------


def summary(service: Service, looks: Looks, troubles: Mapping[Family, Troubles]) -> ServiceSummary:
    """A Service in one line."""
    counted = together(looks, service.names())
    frontends = [frontend for _, entry in service.ports for frontend in entry.frontends]
    frontends.sort(key=lambda frontend: PRECEDENCE[frontend.kind])
    return ServiceSummary(
        namespace=service.name.namespace,
        service=service.name.service,
        addresses=tuple(dict.fromkeys(f.address for f in frontends if f.address)),
        ports=tuple(dict.fromkeys(port_text(entry) for _, entry in service.ports)),
        node_ports=tuple(
            dict.fromkeys(f.port for f in frontends if f.kind is FrontendKind.NODE_PORT)
        ),
        endpoints=sum(entry.endpoints for _, entry in service.ports),
        endpoints_used=sum(len({*entry.cluster, *entry.local}) for _, entry in service.ports),
        connections=counted.total,
        per_second=counted.per_second,
        problems=tuple(_problems(service, troubles)),
    )


def port_text(entry: Entry) -> str:
    """`[NAME:]PORT/PROTOCOL`; without the number when others have all of its addresses."""
    dialled = (f.port for f in entry.frontends if f.kind is not FrontendKind.NODE_PORT)
    parts = (entry.name.port, str(next(dialled, "")))
    return f"{':'.join(part for part in parts if part)}/{entry.protocol.name}"


def _problems(service: Service, troubles: Mapping[Family, Troubles]) -> Iterator[str]:
    nobody = [each for each in service.ports if not each[1].has_endpoints]
    if len(nobody) == len(service.ports):
        yield "no endpoint can serve"
        nobody = []
    for family, entry in nobody:
        yield f"{port_text(entry)} {family.value}: no endpoint can serve"
    for family, entry in service.ports:
        trouble = troubles.get(family, _NONE)
        reason = trouble.failed.get(entry.name)
        if reason is not None:
            yield f"{port_text(entry)} {family.value}: not programmed: {reason}"
        for conflict in trouble.lost.get(entry.name, ()):
            yield f"{conflict.key} is served by {conflict.winner}"


_NONE: Final = Troubles()


def list_pieces(found: ServiceList) -> Iterator[bytes]:
    """The list as JSON, a Service at a time: `services` is its last field."""
    encode = msgspec.json.Encoder().encode
    yield encode(msgspec.structs.replace(found, services=())).removesuffix(b"]}")
    for number, each in enumerate(found.services):
        yield (b"," if number else b"") + encode(each)
    yield b"]}"
