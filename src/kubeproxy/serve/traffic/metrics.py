"""The families of metrics, for the registry: `registry.add(*families(...), in_thread=True)`."""

from collections.abc import Callable, Iterator

from kubeproxy.serve.metrics.families import About, Kind, Sample, label_text
from kubeproxy.serve.traffic.series import (
    ENDPOINT_LABELS,
    FRONTEND_LABELS,
    Detail,
    SeriesLimits,
    Shares,
    endpoint_series,
    service_series,
)
from kubeproxy.serve.traffic.traffic import Traffic, gently

SERVICE = About(
    "kubeproxy_service_connections_total",
    Kind.COUNTER,
    "[ALPHA] New connections to a frontend of a service, as counted by the kernel",
    FRONTEND_LABELS,
)
ENDPOINT = About(
    "kubeproxy_endpoint_connections_total",
    Kind.COUNTER,
    "[ALPHA] New connections sent to an endpoint of a service, as counted by the kernel",
    ENDPOINT_LABELS,
)
SERIES = About(
    "kubeproxy_connections_series",
    Kind.GAUGE,
    "[ALPHA] Series of the connection metrics: shown, merged with their service, or left out",
    ("metric", "state"),
)


class ConnectionFamily:
    """A family whose samples are made of the newest totals."""

    def __init__(self, about: About, samples: Callable[[], Iterator[Sample]]) -> None:
        self.about = about
        self._samples = samples

    def samples(self) -> Iterator[Sample]:
        """Its samples now, made with pauses."""
        return gently(self._samples())


def families(traffic: Traffic, limits: SeriesLimits, *, endpoints: bool) -> list[ConnectionFamily]:
    """The families to show; `endpoints` where those count too. [] when none are wanted."""
    if limits.detail is Detail.NONE:
        return []

    def shares() -> Iterator[Sample]:
        totals = traffic.totals()
        yield from _shares("service", service_series(totals, limits)[0])
        if endpoints:
            yield from _shares("endpoint", endpoint_series(totals, limits)[0])

    found = [
        ConnectionFamily(SERVICE, lambda: service_series(traffic.totals(), limits)[1]),
        ConnectionFamily(SERIES, shares),
    ]
    if endpoints:
        found.append(
            ConnectionFamily(ENDPOINT, lambda: endpoint_series(traffic.totals(), limits)[1])
        )
    return found


def _shares(metric: str, shares: Shares) -> Iterator[Sample]:
    for state in ("shown", "merged", "dropped"):
        yield Sample(label_text(SERIES.labels, (metric, state)), getattr(shares, state))
