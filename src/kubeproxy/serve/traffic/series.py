"""Totals -> the series that Prometheus gets: as fine as is asked for, and never more than so many.

Every node has a series for every frontend, so their number is the first cost of these metrics.
Beyond the limit the frontends of a service are shown as one; beyond it again, the services with
the fewest connections are left out. `Shares` says how many that concerns.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from heapq import nlargest

import msgspec

from kubeproxy.base.inet import Family, join
from kubeproxy.serve.metrics.families import Sample, label_text
from kubeproxy.serve.traffic.totals import Tally, Totals
from kubeproxy.table.entries import Backend, Frontend, FrontendKind, ServiceName, ServicePortName

FRONTEND_LABELS = ("namespace", "service", "port", "protocol", "ip_family", "frontend", "address")
ENDPOINT_LABELS = ("namespace", "service", "port", "protocol", "ip_family", "endpoint")
KIND = {
    FrontendKind.CLUSTER_IP: "cluster-ip",
    FrontendKind.LOAD_BALANCER: "load-balancer",
    FrontendKind.EXTERNAL_IP: "external-ip",
    FrontendKind.NODE_PORT: "node-port",
}

ByFamily = Mapping[Family, Totals]


class Detail(Enum):
    """How fine the series of services are; the values are those of the setting."""

    FRONTEND = "frontend"
    SERVICE = "service"
    NONE = "none"


class Limits(msgspec.Struct, frozen=True):
    """How fine, and how many series each of the two metrics may have; 0 is no limit."""

    detail: Detail = Detail.FRONTEND
    series: int = 10_000

    def allow(self, count: int) -> bool:
        """Whether so many series are few enough."""
        return not self.series or count <= self.series


class Shares(msgspec.Struct, frozen=True):
    """What became of the frontends' and endpoints' series.

    `shown` are there, `merged` are part of their service's, `dropped` are left out.
    """

    shown: int = 0
    merged: int = 0
    dropped: int = 0


# --- services -------------------------------------------------------------------------------


def service_shares(totals: ByFamily, limits: Limits) -> Shares:
    """How many series services have, and how many frontends have none of their own."""
    frontends = sum(len(tally.frontends) for _, _, tally in _tallies(totals))
    detail = _detail(frontends, limits)
    if detail is Detail.NONE:
        return Shares(dropped=frontends)
    if detail is Detail.FRONTEND:
        return Shares(shown=frontends)
    services = len({ServiceName(*name[:2]) for _, name, _ in _tallies(totals)})
    shown = services if limits.allow(services) else limits.series
    return Shares(shown, frontends, services - shown)


def service_samples(totals: ByFamily, limits: Limits) -> Iterator[Sample]:
    """Connections of frontends, or of services where there are too many of those."""
    frontends = sum(len(tally.frontends) for _, _, tally in _tallies(totals))
    detail = _detail(frontends, limits)
    if detail is Detail.FRONTEND:
        for family, name, tally in _tallies(totals):
            yield from _frontend_samples(family, name, tally)
    elif detail is Detail.SERVICE:
        sums = _sums(totals)
        shown = sums.items() if limits.allow(len(sums)) else _most(sums, limits.series)
        for service, total in shown:
            yield Sample(label_text(FRONTEND_LABELS[:2], service), total)


def _detail(frontends: int, limits: Limits) -> Detail:
    """How fine it can be."""
    if limits.detail is Detail.FRONTEND and not limits.allow(frontends):
        return Detail.SERVICE
    return limits.detail


def _tallies(totals: ByFamily) -> Iterator[tuple[Family, ServicePortName, Tally]]:
    for family, each in totals.items():
        for name, tally in each.tallies.items():
            yield family, name, tally


def _frontend_samples(family: Family, name: ServicePortName, tally: Tally) -> Iterator[Sample]:
    # The labels stand in the order of their names, and most of them are the same for all.
    common = label_text(FRONTEND_LABELS[:4], (*name[:3], name.protocol.name))[1:]
    for frontend, total in tally.frontends.items():
        where = f'address="{address_of(frontend)}",frontend="{KIND[frontend.kind]}"'
        yield Sample(f'{{{where},ip_family="{family.value}",{common}', total)


def address_of(frontend: Frontend) -> str:
    """`address:port`; a node port is served on any of the node's addresses: `*:port`."""
    return join(frontend.address, frontend.port) if frontend.address else f"*:{frontend.port}"


def _sums(totals: ByFamily) -> dict[ServiceName, int]:
    sums: dict[ServiceName, int] = {}
    for _, name, tally in _tallies(totals):
        service = ServiceName(name.namespace, name.service)
        sums[service] = sums.get(service, 0) + sum(tally.frontends.values())
    return sums


def _most(sums: Mapping[ServiceName, int], count: int) -> list[tuple[ServiceName, int]]:
    return nlargest(count, sums.items(), key=lambda each: (each[1], each[0]))


# --- endpoints ------------------------------------------------------------------------------


def endpoint_shares(totals: ByFamily, limits: Limits) -> Shares:
    """How many series endpoints have, and how many are left out."""
    count = sum(len(tally.endpoints) for _, _, tally in _tallies(totals))
    shown = 0 if limits.detail is not Detail.FRONTEND else count
    if not limits.allow(shown):
        shown = limits.series
    return Shares(shown, dropped=count - shown)


def endpoint_samples(totals: ByFamily, limits: Limits) -> Iterator[Sample]:
    """Connections of endpoints; those with the most where there are too many."""
    if limits.detail is not Detail.FRONTEND:
        return
    found = [
        (total, family, name, endpoint)
        for family, name, tally in _tallies(totals)
        for endpoint, total in tally.endpoints.items()
    ]
    if not limits.allow(len(found)):
        found = nlargest(limits.series, found, key=lambda each: (each[0], each[2], each[3]))
    for total, family, name, endpoint in found:
        yield Sample(_endpoint_labels(family, name, endpoint), total)


def _endpoint_labels(family: Family, name: ServicePortName, endpoint: Backend) -> str:
    values = (*name[:3], name.protocol.name, family.value, str(endpoint))
    return label_text(ENDPOINT_LABELS, values)
