"""Whose connections are traced: service ports as the daemon tells of them, or mere addresses."""

from collections.abc import Iterable, Iterator

import msgspec

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family, Protocol, family_of, join
from kubeproxy.serve.status.wire import PortDetail, ServiceDetail

NODE_PORT = "node-port"


class Frontend(msgspec.Struct, frozen=True):
    """An address that clients dial; "" for a node port. `kind` is the daemon's word, or ""."""

    kind: str
    address: str
    port: int


class Endpoint(msgspec.Struct, frozen=True):
    """Who serves. `node` is "" and `here` is None when nobody said where it runs.

    `used` says whether new connections are sent there.
    """

    address: str
    port: int
    node: str = ""
    here: bool | None = None
    used: bool = True

    def __str__(self) -> str:
        return join(self.address, self.port)


class Watched(msgspec.Struct, frozen=True):
    """A service port in one family. `name` is "" when only an address was named."""

    name: str
    family: Family
    protocol: Protocol
    frontends: tuple[Frontend, ...]
    endpoints: tuple[Endpoint, ...] = ()


def watched_address(address: str, port: int, protocol: Protocol) -> Watched:
    """An address, of which nothing else is known."""
    return Watched("", family_of(address), protocol, (Frontend("", address, port),))


def watched_ports(
    service: ServiceDetail, port: str = "", protocol: Protocol | None = None
) -> list[Watched]:
    """The ports of a Service that are meant, by name or number and by protocol; "" for all."""
    found = [
        _watched(service, each)
        for each in service.ports
        if protocol in (None, PROTOCOL_BY_NAME[each.protocol])
        and port in ("", each.name, *_numbers(each))
    ]
    if not found:
        name = f"{service.namespace}/{service.service}"
        listed = ", ".join(dict.fromkeys(_shown_ports(service.ports)))
        has = f"it has {listed}" if listed else "it has no port that is served here"
        raise OperatorError(f"Service {name} has no such port: {has}")
    return found


def remarks(watched: Iterable[Watched]) -> Iterator[str]:
    """What people should know before they wait for connections that never show."""
    for each in watched:
        if each.name and not any(endpoint.used for endpoint in each.endpoints):
            yield (
                f"note: {each.name} has no {each.family.value} endpoint that is used: connections "
                "to it end before they are tracked, so none will show"
            )


def _watched(service: ServiceDetail, port: PortDetail) -> Watched:
    name = f"{service.namespace}/{service.service}"
    return Watched(
        f"{name}:{port.name}" if port.name else name,
        Family(port.ip_family),
        PROTOCOL_BY_NAME[port.protocol],
        tuple(Frontend(each.kind, each.address, each.port) for each in port.frontends),
        tuple(
            Endpoint(each.address, each.port, each.node, each.on_this_node, each.used)
            for each in port.endpoints
        ),
    )


def _numbers(port: PortDetail) -> Iterator[str]:
    """The numbers by which people know a port; its node port is one of them."""
    return (str(frontend.port) for frontend in port.frontends)


def _shown_ports(ports: Iterable[PortDetail]) -> Iterator[str]:
    for port in ports:
        for frontend in port.frontends[:1]:
            number = f"{frontend.port}/{port.protocol}"
            yield f"{port.name} ({number})" if port.name else number
