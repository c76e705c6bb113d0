"""Counts for each endpoint, within a limit: what does not fit is counted with less detail."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kubeproxy.base.inet import Family, join
from kubeproxy.dataplane.failures import UNKNOWN, Endpoint
from kubeproxy.serve.metrics.families import About, Reading, Sample, label_text
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.table.entries import ServicePortName

IDLE: float = 600.0
"""Seconds after which a series may make room for another: every scrape has seen it."""


class Series(NamedTuple):
    """The label values of a series; "" is a label that is not there."""

    namespace: str = ""
    service: str = ""
    port: str = ""
    protocol: str = ""
    ip_family: str = ""
    endpoint: str = ""
    reason: str = ""


LABELS = Series._fields[:-1]
WITH_REASON = Series._fields
OF_SERVICE_PORT = Series._fields[:-2]


def series_of(
    family: Family, name: ServicePortName, endpoint: Endpoint = UNKNOWN, reason: str = ""
) -> Series:
    """The series of an endpoint, or of a service port."""
    where = join(*endpoint) if endpoint != UNKNOWN else ""
    return Series(*name[:3], name.protocol.name, family.value, where, reason)


class Tally:
    """The counts of one metric: a series for each endpoint, for up to half of the limit.

    Further endpoints are counted with their service port, and further service ports together. A
    series that has not counted for long makes room. The last series of all is there from the
    start, once for each reason.
    """

    def __init__(
        self, about: About, limits: SeriesLimits, clock: Callable[[], float], *reasons: str
    ) -> None:
        self.about = about
        self._limits = limits
        self._clock = clock
        # In the order in which they last counted: when, and how much.
        self._endpoints: dict[Series, tuple[float, int]] = {}
        self._service_ports: dict[Series, tuple[float, int]] = {}
        self._rest = {Series(reason=reason): 0 for reason in reasons or ("",)}

    @property
    def family(self) -> Reading:
        """What a scrape shows."""
        return Reading(self.about, self._samples)

    def add(self, series: Series, by: int = 1) -> None:
        """Count; at the limit with less detail."""
        detail, limit, now = self._limits.detail, self._limits.series, self._clock()
        of_port = series._replace(endpoint="")
        has_endpoint = detail is Detail.FRONTEND and series != of_port
        most = (limit // 2, limit - limit // 2) if limit else (None, None)
        if has_endpoint and _count(self._endpoints, series, by, now, most[0]):
            return
        if detail is not Detail.NONE and _count(self._service_ports, of_port, by, now, most[1]):
            return
        self._rest[Series(reason=series.reason)] += by

    def of(self, series: Series) -> int:
        """The count of an endpoint, as far as it has a series."""
        return self._endpoints.get(series, (0.0, 0))[1]

    def forget(self, gone: Callable[[Series], bool]) -> None:
        """Remove the series of what has gone."""
        for counts in (self._endpoints, self._service_ports):
            for series in list(filter(gone, counts)):
                del counts[series]

    def _samples(self) -> Iterator[Sample]:
        names = self.about.labels
        found = {series: count for series, (_, count) in self._endpoints.items()}
        found |= {series: count for series, (_, count) in self._service_ports.items()}
        found |= self._rest
        for series, count in found.items():
            yield Sample(label_text(names, series[: len(names)]), count)


def _count(
    counts: dict[Series, tuple[float, int]], series: Series, by: int, now: float, most: int | None
) -> bool:
    """Count in a series; whether there is room for it. `most` is None where there is no limit."""
    before = counts.pop(series, None)
    if before is None and most is not None and len(counts) >= most:
        oldest = next(iter(counts), None)
        if oldest is None or counts[oldest][0] > now - IDLE:
            return False
        del counts[oldest]
    counts[series] = (now, by + (before[1] if before else 0))
    return True
