"""A Service with all its ports: frontends, endpoints, and why some of those are not used."""

from collections.abc import Iterable

from kubeproxy.base.healing import healing_text, parse_healing
from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.base.steps import Steps
from kubeproxy.cluster.model.merge import endpoints_of
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.model.topology import usable_endpoints
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.dataplane.failures import Endpoint
from kubeproxy.explain.answers import missing, why_not_used
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.report import conflict, timestamp
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.status.words import ranges
from kubeproxy.serve.traffic.series import KIND
from kubeproxy.serve.traffic.totals import NOTHING, PortRates, Tally, TrafficWindow
from kubeproxy.table.claims import Conflict
from kubeproxy.table.compile import frontends, service_port_name
from kubeproxy.table.entries import Backend, ServicePortName

WAITS = "it waits for the next sync"
_POLICY = {False: "Cluster", True: "Local"}


def all_services(state: State) -> set[tuple[str, str]]:
    """Namespace and name of every Service that is proxied."""
    return {
        (key.namespace, key.name)
        for family in state.families
        for key in state.cluster.services(family)
    }


def namespaces_of(state: State, name: str) -> list[str]:
    """The namespaces in which a Service of that name is proxied."""
    return sorted(namespace for namespace, service in all_services(state) if service == name)


def service_detail(state: State, namespace: str, name: str) -> Steps[wire.ServiceDetail | None]:
    """All that is known of a Service; None when it is not proxied."""
    service = ObjectKey(namespace, name)
    ports: list[wire.PortDetail] = []
    for family in state.families.values():
        conflicts = family.builder.conflicts()
        for port in state.cluster.service_ports(family.family, service):
            ports += [(yield from _port(state, family, service, port, conflicts))]
    if not ports:
        return None
    return wire.ServiceDetail(
        mode=state.config.mode,
        node=state.cluster.node_name,
        namespace=namespace,
        service=name,
        counts_connections=state.counts_connections,
        ports=tuple(ports),
    )


def _port(
    state: State,
    family: FamilyState,
    service: ObjectKey,
    port: ServicePort,
    conflicts: Iterable[Conflict],
) -> Steps[wire.PortDetail]:
    """A service port as the cluster has it, and as it is programmed."""
    builder, name = family.builder, service_port_name(service, port)
    entry = builder.table.entries.get(name)
    excess = "" if entry else builder.excess.get(service, "")
    tally, rates = _connections(family.look, name)
    shown = entry.frontends if entry else frontends(port)
    external = any(frontend.kind.external for frontend in shown)
    healing, healing_by, not_healed = _healing(state, port)
    return wire.PortDetail(
        name=port.name,
        protocol=port.protocol.name,
        ip_family=family.family.value,
        frontends=tuple(
            wire.FrontendDetail(
                kind=KIND[frontend.kind],
                address=frontend.address,
                port=frontend.port,
                connections=tally.frontends.get(frontend),
                per_second=rates.frontends.get(frontend),
            )
            for frontend in shown
        ),
        endpoints=() if excess else (yield from _endpoints(state, family, service, port)),
        internal_traffic_policy=_POLICY[port.internal_local],
        external_traffic_policy=_POLICY[port.external_local] if external else "",
        affinity_seconds=port.affinity_seconds,
        source_ranges=ranges(port.source_ranges),
        balance=entry.balance.value if entry and state.mode.balances else "",
        health_check_port=port.health_check_port,
        not_programmed=family.failed.get(name) or excess or ("" if entry else WAITS),
        conflicts=tuple(conflict(each) for each in conflicts if name in (each.loser, each.winner)),
        healing=healing,
        healing_by=healing_by,
        not_healed=not_healed,
    )


def _healing(state: State, port: ServicePort) -> tuple[str, str, str]:
    """What is done about endpoints that fail, by whose wish, and why nothing is."""
    if port.protocol is not Protocol.TCP:
        return "", "", ""
    by = "configuration" if port.healing is None else "annotation"
    asked = port.healing
    if asked is None:
        asked = parse_healing(state.config.nftables.healing.parts)
    if state.mode.quirks.heals:
        shown = asked or port.healing is not None
        return (healing_text(asked), by, "") if shown else ("", "", "")
    return ("", by, f"not in {state.mode.name} mode") if asked else ("", "", "")


def _connections(look: TrafficWindow | None, name: ServicePortName) -> tuple[Tally, PortRates]:
    """The connections of a service port, and those of a second."""
    if look is None:
        return NOTHING, PortRates()
    return look.now.tallies.get(name, NOTHING), look.rates(name) or PortRates()


def _endpoints(
    state: State, family: FamilyState, service: ObjectKey, port: ServicePort
) -> Steps[tuple[wire.EndpointDetail, ...]]:
    """The endpoints of a service port in order, each with why traffic is not sent to it."""
    name = service_port_name(service, port)
    tally, rates = _connections(family.look, name)
    endpoints = sorted(
        endpoints_of(state.cluster.slices(family.family, service), port.name, port.protocol),
        key=lambda at: (pack(at.endpoint.address), at.port),  # .2 before .10
    )
    usable = usable_endpoints(port, endpoints, state.cluster.node_name, state.cluster.zone)
    entry, ejections = family.builder.table.entries.get(name), family.left_out.get(name, ())
    not_for = (
        why_not_used(
            endpoints,
            usable,
            state.cluster,
            missing(entry, ejections, local_policy=local),
            local_policy=local,
        )
        for local in (False, True)
    )
    until = {each.endpoint: timestamp(each.until) for each in ejections}
    found = []
    for at, not_for_cluster, not_for_local in zip(endpoints, *not_for, strict=True):
        endpoint = at.endpoint
        backend = Backend(endpoint.address, at.port, endpoint.local)
        socket = Endpoint(endpoint.address, at.port)
        found.append(
            wire.EndpointDetail(
                address=endpoint.address,
                port=at.port,
                node=endpoint.node,
                on_this_node=endpoint.local,
                ready=endpoint.ready,
                serving=endpoint.serving,
                terminating=endpoint.terminating,
                used="" in (not_for_cluster, not_for_local),
                not_for_cluster=not_for_cluster,
                not_for_local=not_for_local,
                connections=tally.endpoints.get(backend),
                per_second=rates.endpoints.get(backend),
                left_out_until=until.get(socket, ""),
                failures=_failures(state, family.family, name, socket),
            )
        )
        yield
    return tuple(found)


def _failures(
    state: State, family: Family, name: ServicePortName, endpoint: Endpoint
) -> dict[str, int]:
    return {} if state.record is None else state.record.failures_of(family, name, endpoint)
