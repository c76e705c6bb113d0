"""One Service and its slices -> the entries of its ports in one family."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Protocol, contains
from kubeproxy.base.steps import PART, Steps
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.cluster.model.merge import (
    PortEndpoint,
    by_port,
    merge,
    with_endpoints,
)
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.model.topology import usable_in_steps
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.table.diff import ListChanges
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    HealthCheck,
    ServicePortName,
)
from kubeproxy.table.limits import Fit, surely_fit, within_limits
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import policies

Ejected = Collection[tuple[str, int]]
"""Endpoints by address and port."""
NONE_EJECTED: Ejected = ()


class Compiled(msgspec.Struct, frozen=True):
    """All that the table holds of one Service.

    `excess` says which ports were left out because the Service exceeds a limit. `lists` are the
    changes of long lists, if they are known.
    """

    entries: tuple[Entry, ...] = ()
    health_check: HealthCheck | None = None
    excess: str = ""
    lists: Mapping[ServicePortName, ListChanges] = {}


def compile_service(
    service: ObjectKey,
    ports: tuple[ServicePort, ...],
    slices: Mapping[str, Slice],
    node: NodeView,
    ejected: Ejected = NONE_EJECTED,
) -> Steps[Compiled]:
    """The entries of a Service's ports, and its health check.

    Slices may change between the steps: those of the first are compiled.
    """
    entries: list[Entry] = []
    ready_here: set[str] = set()
    known = with_endpoints(slices)
    fit = Fit(ports) if surely_fit(ports, known) else (yield from within_limits(ports, known))
    own_vips = _own_vips(ports, node)
    sources = yield from by_port(known, [(port.name, port.protocol) for port in fit.ports])
    for port in fit.ports:
        if entries:
            yield
        endpoints = yield from merge(sources[port.name, port.protocol])
        entry = yield from _compile_port(service, port, endpoints, node, own_vips=own_vips)
        entries.append(_without(entry, ejected))
        if port.health_check_port:
            ready_here.update(
                at.endpoint.address for at in endpoints if at.endpoint.local and at.endpoint.ready
            )
    check_port = ports[0].health_check_port if ports else 0
    check = HealthCheck(check_port, len(ready_here)) if check_port else None
    return Compiled(tuple(entries), check, fit.excess)


def _own_vips(ports: Sequence[ServicePort], node: NodeView) -> bool:
    """Whether this node is in a source range; all ports of a Service have the same ones."""
    ranges = ports[0].source_ranges if ports else None
    return node.ip is not None and any(contains(range_, node.ip) for range_ in ranges or ())


def _compile_port(
    service: ObjectKey,
    port: ServicePort,
    endpoints: list[PortEndpoint],
    node: NodeView,
    *,
    own_vips: bool,
) -> Steps[Entry]:
    usable = yield from usable_in_steps(port, endpoints, node.name, node.zone)
    if len(endpoints) > PART:
        yield
    internal, external = policies(
        internal_local=port.internal_local, external_local=port.external_local
    )
    here = {id(at): _backend(at) for at in endpoints if at.endpoint.local}
    cluster = (yield from _backends(usable.cluster, here)) if usable.cluster else ()
    healing = _healing(port, node)
    return Entry(
        name=service_port_name(service, port),
        frontends=frontends(port),
        cluster=cluster,
        local=(yield from _backends(usable.local, here)) if usable.local else (),
        has_endpoints=usable.any,
        internal=internal,
        external=external,
        externally_accessible=port.externally_accessible,
        affinity_seconds=port.affinity_seconds,
        source_ranges=port.source_ranges,
        own_vips=own_vips,
        serving=_serving(port, endpoints),
        balance=Balance(port.balance) if port.balance else node.balance,
        endpoints=len(endpoints),
        here=tuple(here.values()),
        healing=healing,
        pods=_pods(endpoints, cluster) if healing & Healing.RESET_GONE else (),
        has_selector=port.has_selector,
    )


def _healing(port: ServicePort, node: NodeView) -> Healing:
    """What is done about endpoints that fail: only TCP says that an endpoint does."""
    if port.protocol is not Protocol.TCP:
        return Healing.NONE
    return node.healing if port.healing is None else port.healing


def _pods(endpoints: Sequence[PortEndpoint], cluster: tuple[Backend, ...]) -> tuple[Backend, ...]:
    """The endpoints that are pods: usually those of policy Cluster, and then the same object."""
    found = tuple([_backend(at) for at in endpoints if at.endpoint.pod])
    return cluster if found == cluster else found


def _without(entry: Entry, ejected: Ejected) -> Entry:
    """The entry without those endpoints, but for a list that would be empty without them."""
    if not ejected or not entry.healing & Healing.EJECT:
        return entry
    kept = {}
    for name in ("cluster", "local"):
        backends: tuple[Backend, ...] = getattr(entry, name)
        kept[name] = tuple([b for b in backends if (b.address, b.port) not in ejected]) or backends
    listed = {*kept["cluster"], *kept["local"]}
    left_out = tuple(sorted({*entry.cluster, *entry.local} - listed))
    return msgspec.structs.replace(entry, **kept, ejected=left_out)


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


def _backends(
    chosen: Sequence[PortEndpoint], here: Mapping[int, Backend]
) -> Steps[tuple[Backend, ...]]:
    """The backends of a list. Those on this node are the same objects in all lists."""
    found: list[Backend] = []
    for start in range(0, len(chosen), PART):
        if start:
            yield
        found += [
            here[id(at)] if at.endpoint.local else Backend(at.endpoint.address, at.port)
            for at in chosen[start : start + PART]
        ]
    return tuple(found)


def _backend(at: PortEndpoint) -> Backend:
    return Backend(at.endpoint.address, at.port, at.endpoint.local)


def _serving(port: ServicePort, endpoints: list[PortEndpoint]) -> tuple[Backend, ...]:
    if port.protocol is not Protocol.UDP:
        return ()
    return tuple([_backend(at) for at in endpoints if at.endpoint.serving])
