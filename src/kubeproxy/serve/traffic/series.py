"""Totals -> the series of Prometheus: as fine as configured, and never more than so many.

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
from kubeproxy.table.entries import FrontendKind, ServiceName, ServicePortName

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


class SeriesLimits(msgspec.Struct, frozen=True):
    """How fine, and how many series each of the two metrics may have; 0 is no limit."""

    detail: Detail = Detail.FRONTEND
    series: int = 10_000

    def allow(self, count: int) -> bool:
        """Whether so many series are few enough."""
        return not self.series or count <= self.series


class Shares(msgspec.Struct, frozen=True):
    """How many series there are of frontends or endpoints.

    `shown` are there, `merged` are part of their service's, `dropped` are left out.
    """

    shown: int = 0
    merged: int = 0
    dropped: int = 0


def service_series(totals: ByFamily, limits: SeriesLimits) -> tuple[Shares, Iterator[Sample]]:
    """Connections of frontends, or of services where there are too many of those."""
    frontends = sum(len(tally.frontends) for _, _, tally in _tallies(totals))
    if limits.detail is Detail.FRONTEND and limits.allow(frontends):
        return Shares(shown=frontends), _frontend_samples(totals)
    sums: dict[ServiceName, int] = {}
    for _, name, tally in _tallies(totals):
        service = ServiceName(name.namespace, name.service)
        sums[service] = sums.get(service, 0) + sum(tally.frontends.values())
    shown = list(sums.items())
    if not limits.allow(len(sums)):
        shown = nlargest(limits.series, shown, key=lambda each: (each[1], each[0]))
    samples = (Sample(label_text(FRONTEND_LABELS[:2], name), total) for name, total in shown)
    return Shares(len(shown), frontends, len(sums) - len(shown)), samples


def _tallies(totals: ByFamily) -> Iterator[tuple[Family, ServicePortName, Tally]]:
    for family, each in totals.items():
        for name, tally in each.tallies.items():
            yield family, name, tally


def _frontend_samples(totals: ByFamily) -> Iterator[Sample]:
    for family, name, tally in _tallies(totals):
        # The labels are in the order of their names, and most of them are the same for all.
        common = label_text(FRONTEND_LABELS[:4], (*name[:3], name.protocol.name))[1:]
        for frontend, total in tally.frontends.items():
            address, port = frontend.address, frontend.port
            at = join(address, port) if address else f"*:{port}"  # a node port is on any address
            where = f'address="{at}",frontend="{KIND[frontend.kind]}"'
            yield Sample(f'{{{where},ip_family="{family.value}",{common}', total)


def endpoint_series(totals: ByFamily, limits: SeriesLimits) -> tuple[Shares, Iterator[Sample]]:
    """Connections of endpoints; those with the most where there are too many."""
    count = sum(len(tally.endpoints) for _, _, tally in _tallies(totals))
    shown = count if limits.detail is Detail.FRONTEND else 0
    if not limits.allow(shown):
        shown = limits.series
    return Shares(shown, dropped=count - shown), _endpoint_samples(totals, shown, count)


def _endpoint_samples(totals: ByFamily, shown: int, count: int) -> Iterator[Sample]:
    if not shown:
        return
    found = [
        (total, family, name, endpoint)
        for family, name, tally in _tallies(totals)
        for endpoint, total in tally.endpoints.items()
    ]
    if shown < count:
        found = nlargest(shown, found, key=lambda each: (each[0], each[2], each[3]))
    for total, family, name, endpoint in found:
        values = (*name[:3], name.protocol.name, family.value, str(endpoint))
        yield Sample(label_text(ENDPOINT_LABELS, values), total)
