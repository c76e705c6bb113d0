"""One Service and its slices -> the entries of its ports in one family."""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.inet import Protocol, contains
from kubeproxy.model.endpoint import Slice
from kubeproxy.model.merge import PortEndpoint, by_port, endpoints_of, merge
from kubeproxy.model.serviceport import ServicePort
from kubeproxy.model.topology import LeftOut, Place, usable_endpoints, why_left_out
from kubeproxy.objects.meta import ObjectKey
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    HealthCheck,
    ServicePortName,
)


class Vantage(msgspec.Struct, frozen=True):
    """From where the cluster is looked at: our place in it, and our address in the family.

    `balance` is how an endpoint is chosen where the Service does not say.
    """

    place: Place
    node_ip: str | None = None
    balance: Balance = Balance.RANDOM


class Compiled(msgspec.Struct, frozen=True):
    """All that the table holds of one Service."""

    entries: tuple[Entry, ...] = ()
    health_check: HealthCheck | None = None


def compile_service(
    service: ObjectKey,
    ports: tuple[ServicePort, ...],
    slices: Mapping[str, Slice],
    vantage: Vantage,
) -> Compiled:
    """The entries of a Service's ports, and its health check."""
    entries = []
    ready_here: set[str] = set()
    sources = by_port(slices)
    for port in ports:
        endpoints = merge(sources.get((port.name, port.protocol), ()))
        entries.append(_compile_port(service, port, endpoints, vantage))
        if port.health_check_port:
            ready_here.update(
                at.endpoint.address for at in endpoints if at.endpoint.local and at.endpoint.ready
            )
    check_port = ports[0].health_check_port if ports else 0
    check = HealthCheck(check_port, len(ready_here)) if check_port else None
    return Compiled(tuple(entries), check)


def _compile_port(
    service: ObjectKey, port: ServicePort, endpoints: list[PortEndpoint], vantage: Vantage
) -> Entry:
    usable = usable_endpoints(port, endpoints, vantage.place)
    here = {id(at): _backend(at) for at in endpoints if at.endpoint.local}
    ranges = port.source_ranges
    node_ip = vantage.node_ip
    return Entry(
        name=service_port_name(service, port),
        frontends=frontends(port),
        cluster=_backends(usable.cluster or (), here),
        local=_backends(usable.local or (), here),
        any=usable.any,
        internal_local=port.internal_local,
        external_local=port.external_local,
        externally_accessible=port.externally_accessible,
        affinity_seconds=port.affinity_seconds,
        source_ranges=ranges,
        own_vips=node_ip is not None and any(contains(r, node_ip) for r in ranges or ()),
        serving=_serving(port, endpoints),
        balance=Balance(port.balance) if port.balance else vantage.balance,
        endpoints=len(endpoints),
        here=tuple(here.values()),
    )


def left_out(
    port: ServicePort, slices: Mapping[str, Slice], place: Place, *, local_policy: bool
) -> tuple[tuple[PortEndpoint, LeftOut], ...]:
    """The endpoints of a port that a traffic policy does not use, and why. For explaining."""
    endpoints = endpoints_of(slices, port.name, port.protocol)
    usable = usable_endpoints(port, endpoints, place)
    reasons = why_left_out(endpoints, usable, local_policy=local_policy)
    return tuple((at, why) for at, why in zip(endpoints, reasons, strict=True) if why is not None)


def service_port_name(service: ObjectKey, port: ServicePort) -> ServicePortName:
    """The name by which the table knows a port of a Service."""
    return ServicePortName(service.namespace, service.name, port.name, port.protocol)


def frontends(port: ServicePort) -> tuple[Frontend, ...]:
    """The addresses of a service port that a client can dial."""
    found = [Frontend(FrontendKind.CLUSTER_IP, port.cluster_ip, port.port)]
    found += _at(FrontendKind.LOAD_BALANCER, port.load_balancer_ips, port.port)
    found += _at(FrontendKind.EXTERNAL_IP, port.external_ips, port.port)
    if port.node_port:
        found.append(Frontend(FrontendKind.NODE_PORT, "", port.node_port))
    return tuple(found)


def _at(kind: FrontendKind, addresses: Iterable[str], port: int) -> list[Frontend]:
    return [Frontend(kind, address, port) for address in addresses]


def _backends(chosen: Iterable[PortEndpoint], here: Mapping[int, Backend]) -> tuple[Backend, ...]:
    """The backends of a list; those on this node, by identity, are the same in all lists."""
    return tuple(
        [
            here[id(at)] if at.endpoint.local else Backend(at.endpoint.address, at.port)
            for at in chosen
        ]
    )


def _backend(at: PortEndpoint) -> Backend:
    return Backend(at.endpoint.address, at.port, at.endpoint.local)


def _serving(port: ServicePort, endpoints: list[PortEndpoint]) -> tuple[Backend, ...]:
    if port.protocol is not Protocol.UDP:
        return ()
    return tuple([_backend(at) for at in endpoints if at.endpoint.serving])
