"""Reads counters on request, keeps what is needed for totals that only grow, and shows metrics."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Counts
from kubeproxy.serve.metrics.families import About, MetricKind, Reading, Sample, label_text
from kubeproxy.serve.traffic.series import (
    ENDPOINT_LABELS,
    FRONTEND_LABELS,
    Detail,
    SeriesLimits,
    endpoint_series,
    service_series,
)
from kubeproxy.serve.traffic.totals import NOTHING, Totals, TrafficWindow, accumulate

FRESH = 1.0
"""Seconds for which a reading serves all requests."""
ATTENTION = 60.0
"""Seconds after the last request for rates, after which none are kept."""
PIECE = 250
PAUSE = 0.0002

_SERVICE = About(
    "kubeproxy_service_connections_total",
    MetricKind.COUNTER,
    "[ALPHA] New connections to a frontend of a service, as counted by the kernel",
    FRONTEND_LABELS,
)
_ENDPOINT = About(
    "kubeproxy_endpoint_connections_total",
    MetricKind.COUNTER,
    "[ALPHA] New connections sent to an endpoint of a service, as counted by the kernel",
    ENDPOINT_LABELS,
)
_SERIES = About(
    "kubeproxy_connections_series",
    MetricKind.GAUGE,
    "[ALPHA] Series of the connection metrics: shown, merged with their service, or left out",
    ("metric", "state"),
)

T = TypeVar("T")


class Traffic:
    """The connections of all services, for any thread but that of the event loop: it blocks.

    `clock` is seconds, as of `time.monotonic`.
    """

    def __init__(
        self, counts: Mapping[Family, Counts], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counts = counts
        self._clock = clock
        self._lock = threading.Lock()
        self._now: dict[Family, Totals] = {}
        self._before: dict[Family, Totals] = {}
        self._rates_asked = float("-inf")

    def totals(self) -> Mapping[Family, Totals]:
        """The totals of each family, not older than a second."""
        with self._lock:
            self._read_all()
            return dict(self._now)

    def windows(self) -> Mapping[Family, TrafficWindow]:
        """The totals of each family, with those before if they were read not long ago.

        A second call, a second later, gives the rates of that second.
        """
        with self._lock:
            asked, self._rates_asked = self._rates_asked, self._clock()
            self._read_all()
            before = {} if self._rates_asked - asked > ATTENTION else self._before
            return {f: TrafficWindow(now, before.get(f)) for f, now in self._now.items()}

    def _read_all(self) -> None:
        for family, counts in self._counts.items():
            self._read(family, counts)

    def _read(self, family: Family, counts: Counts) -> None:
        now = self._clock()
        last = self._now.get(family)
        if last is not None and now - last.time < FRESH:
            return
        try:
            reading = counts.connections()
        except KernelError as error:
            klog.error("Connection counters cannot be read", err=error, ipFamily=family.value)
            return
        if reading is None:
            return
        before = last.tallies if last else {}
        reset = last is None or last.epoch != reading.epoch
        tallies = {
            name: accumulate(before.get(name, NOTHING), found, reset=reset)
            for name, found in gently(reading.counts)
        }
        self._now[family] = Totals(now, reading.epoch, tallies)
        if last is not None and now - self._rates_asked <= ATTENTION:
            self._before[family] = last
        else:
            self._before.pop(family, None)


def families(traffic: Traffic, limits: SeriesLimits, *, endpoints: bool) -> list[Reading]:
    """The families to show; `endpoints` where those count too. [] when none are wanted.

    They are read in a thread: `registry.add(*families(...), in_thread=True)`.
    """
    if limits.detail is Detail.NONE:
        return []

    def shares() -> Iterator[Sample]:
        totals = traffic.totals()
        found = {"service": service_series(totals, limits)[0]}
        if endpoints:
            found["endpoint"] = endpoint_series(totals, limits)[0]
        for metric, shares in found.items():
            for state in ("shown", "merged", "dropped"):
                yield Sample(label_text(_SERIES.labels, (metric, state)), getattr(shares, state))

    found = [
        Reading(_SERIES, shares),
        Reading(_SERVICE, lambda: gently(service_series(traffic.totals(), limits)[1])),
    ]
    if endpoints:
        found.append(
            Reading(_ENDPOINT, lambda: gently(endpoint_series(traffic.totals(), limits)[1]))
        )
    return found


def gently(items: Iterable[T]) -> Iterator[T]:
    """The items, with pauses for other threads.

    A thread that computes keeps the interpreter for 5 ms at a time, which would be the delay of
    every step of a sync; so it lets go by itself, about once a millisecond.
    """
    for number, item in enumerate(items, 1):
        yield item
        if not number % PIECE:
            time.sleep(PAUSE)
