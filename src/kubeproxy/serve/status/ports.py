"""A Service with all its ports: frontends, endpoints, and why some of those are not used."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubeproxy.base.inet import Family, pack
from kubeproxy.base.steps import Steps
from kubeproxy.cluster.model.endpoint import Endpoint, Slice
from kubeproxy.cluster.model.merge import endpoints_of
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.model.topology import (
    HintMode,
    LeftOut,
    Place,
    usable_endpoints,
    why_left_out,
)
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.explain.answers import why_not
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.report import conflict
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.status.words import policy, ranges
from kubeproxy.serve.traffic.series import KIND
from kubeproxy.serve.traffic.totals import NOTHING, Look, Rates, Tally
from kubeproxy.table.claims import Conflict
from kubeproxy.table.compile import frontends, service_port_name
from kubeproxy.table.entries import Backend, Entry, Frontend, ServicePortName
from kubeproxy.table.node import Mode

WAITS = "it waits for the next sync"


class Port(msgspec.Struct, frozen=True):
    """A service port in one family: as the cluster has it, and as it is programmed.

    `entry` is None before the first sync of it. `failed` is why it cannot be programmed, "" when
    it can. `balance` is how an endpoint is chosen, "" where the mode gives no choice.
    """

    name: ServicePortName
    family: Family
    port: ServicePort
    slices: Mapping[str, Slice]
    place: Place
    entry: Entry | None = None
    failed: str = ""
    balance: str = ""
    conflicts: Sequence[Conflict] = ()
    look: Look | None = None

    @property
    def frontends(self) -> tuple[Frontend, ...]:
        """The addresses that it has, or will have."""
        return self.entry.frontends if self.entry else frontends(self.port)

    @property
    def tally(self) -> Tally:
        """The connections that were counted."""
        return self.look.now.tallies.get(self.name, NOTHING) if self.look else NOTHING

    @property
    def rates(self) -> Rates:
        """The connections of a second."""
        return (self.look.rates(self.name) if self.look else None) or Rates()


def port_detail(port: Port, endpoints: Sequence[wire.EndpointDetail]) -> wire.PortDetail:
    """The service port with its endpoints."""
    about = port.port
    external = any(frontend.kind.external for frontend in port.frontends)
    return wire.PortDetail(
        name=about.name,
        protocol=about.protocol.name,
        ip_family=port.family.value,
        frontends=tuple(_frontends(port)),
        endpoints=tuple(endpoints),
        internal_traffic_policy=policy(local=about.internal_local),
        external_traffic_policy=policy(local=about.external_local) if external else "",
        affinity_seconds=about.affinity_seconds,
        source_ranges=ranges(about.source_ranges),
        balance=port.balance,
        health_check_port=about.health_check_port,
        not_programmed=port.failed or ("" if port.entry else WAITS),
        conflicts=tuple(map(conflict, port.conflicts)),
    )


def _frontends(port: Port) -> Iterator[wire.FrontendDetail]:
    tally, rates = port.tally, port.rates
    for frontend in port.frontends:
        yield wire.FrontendDetail(
            kind=KIND[frontend.kind],
            address=frontend.address,
            port=frontend.port,
            connections=tally.frontends.get(frontend),
            per_second=rates.frontends.get(frontend),
        )


def endpoint_details(port: Port) -> Iterator[wire.EndpointDetail]:
    """The endpoints of the service port in order, each with what keeps traffic from it."""
    tally, rates = port.tally, port.rates
    endpoints = sorted(
        endpoints_of(port.slices, port.port.name, port.port.protocol),
        key=lambda at: (pack(at.endpoint.address), at.port),  # .2 before .10
    )
    usable = usable_endpoints(port.port, endpoints, port.place)
    policies = [
        None if chosen is None else why_left_out(endpoints, usable, local_policy=local)
        for local, chosen in ((False, usable.cluster), (True, usable.local))
    ]
    for number, at in enumerate(endpoints):
        endpoint = at.endpoint
        cluster, local = (
            None if whys is None else _why(endpoint, whys[number], usable.hints, port.place)
            for whys in policies
        )
        backend = Backend(endpoint.address, at.port, endpoint.local)
        yield wire.EndpointDetail(
            address=endpoint.address,
            port=at.port,
            node=endpoint.node,
            on_this_node=endpoint.local,
            ready=endpoint.ready,
            serving=endpoint.serving,
            terminating=endpoint.terminating,
            used="" in (cluster, local),
            not_for_cluster=cluster,
            not_for_local=local,
            connections=tally.endpoints.get(backend),
            per_second=rates.endpoints.get(backend),
        )


def _why(endpoint: Endpoint, why: LeftOut | None, hints: HintMode, place: Place) -> str:
    return "" if why is None else why_not(endpoint, why, hints, place)


# --- a Service --------------------------------------------------------------------------------


def service_detail(state: State, namespace: str, name: str) -> Steps[wire.ServiceDetail | None]:
    """All that is known of a Service; None when it is not proxied."""
    service = ObjectKey(namespace, name)
    ports = []
    for family in state.families.values():
        for port in _ports(state, family, service):
            endpoints = []
            for each in endpoint_details(port):
                endpoints.append(each)
                yield
            ports.append(port_detail(port, endpoints))
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


def _ports(state: State, family: FamilyState, service: ObjectKey) -> list[Port]:
    cluster, builder = state.cluster, family.builder
    balances = state.mode is Mode.NFTABLES
    conflicts = builder.conflicts()
    ports = []
    for about in cluster.service_ports(family.family, service):
        name = service_port_name(service, about)
        entry = builder.table.entries.get(name)
        left_out = "" if entry else builder.excess.get(service, "")
        ports.append(
            Port(
                name=name,
                family=family.family,
                port=about,
                slices={} if left_out else cluster.slices(family.family, service),
                place=cluster.place,
                entry=entry,
                failed=family.failed.get(name, left_out),
                balance=entry.balance.value if balances and entry else "",
                conflicts=[each for each in conflicts if name in (each.loser, each.winner)],
                look=family.look,
            )
        )
    return ports


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
