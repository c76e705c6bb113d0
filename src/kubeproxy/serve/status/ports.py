"""One service port with all that is known of it: frontends, endpoints, and why some are not used.

Functions on values only.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubeproxy.base.inet import Family, pack
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
from kubeproxy.explain.answers import why_not
from kubeproxy.serve.status import wire
from kubeproxy.serve.traffic.series import KIND
from kubeproxy.serve.traffic.totals import NOTHING, Look, Rates, Tally
from kubeproxy.table.claims import Conflict
from kubeproxy.table.compile import frontends
from kubeproxy.table.entries import Backend, Entry, Frontend, ServicePortName

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
    ranges = about.source_ranges
    external = any(frontend.kind.external for frontend in port.frontends)
    return wire.PortDetail(
        name=about.name,
        protocol=about.protocol.name,
        ip_family=port.family.value,
        frontends=tuple(_frontends(port)),
        endpoints=tuple(endpoints),
        internal_traffic_policy=_policy(local=about.internal_local),
        external_traffic_policy=_policy(local=about.external_local) if external else "",
        affinity_seconds=about.affinity_seconds,
        source_ranges=None if ranges is None else tuple(map(str, ranges)),
        balance=port.balance,
        health_check_port=about.health_check_port,
        not_programmed=port.failed or ("" if port.entry else WAITS),
        conflicts=tuple(map(conflict, port.conflicts)),
    )


def conflict(found: Conflict) -> wire.Conflict:
    """An address that two claim, in words."""
    return wire.Conflict(str(found.key), str(found.winner), str(found.loser))


def _policy(*, local: bool) -> str:
    return "Local" if local else "Cluster"


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
