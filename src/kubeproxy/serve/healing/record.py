"""An observer of endpoints that fail: it keeps what metrics, status and trace show of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.observer import (
    ConnectionsFailed,
    EjectionWithheld,
    EndpointEjected,
    Observation,
    SyncEnded,
)
from kubeproxy.serve.healing.recent import Recent
from kubeproxy.serve.healing.tally import (
    LABELS,
    OF_SERVICE_PORT,
    WITH_REASON,
    Series,
    Tally,
    series_of,
)
from kubeproxy.serve.metrics.families import (
    About,
    MetricFamily,
    MetricKind,
    Reading,
    Sample,
    label_text,
)
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.table.entries import Entry, ServicePortName

AT_LIMIT: Final = 60.0
"""Seconds for which it is said that one more endpoint should be left out."""

LeftOut = Mapping[ServicePortName, Sequence[Ejection]]
_CONNECTS: Final = (Reason.REFUSED, Reason.UNANSWERED)


class HealingRecord:
    """All that is kept of failures. `clock` is Unix time, `left_out` the endpoints that are."""

    def __init__(
        self,
        limits: SeriesLimits,
        clock: Callable[[], float],
        left_out: Callable[[], Mapping[Family, LeftOut]],
    ) -> None:
        self.recent = Recent()
        self._limits = limits
        self._clock = clock
        self._left_out = left_out
        self._withheld: dict[tuple[Family, ServicePortName], float] = {}

        def tally(name: str, help_: str, labels: tuple[str, ...], *reasons: str) -> Tally:
            about = About(f"kubeproxy_{name}", MetricKind.COUNTER, f"[ALPHA] {help_}", labels)
            return Tally(about, limits, clock, *reasons)

        self._failures = tally(
            "connect_failures_total",
            "Connections that an endpoint refused or did not answer, where they are retried",
            WITH_REASON,
            *(reason.value for reason in _CONNECTS),
        )
        self._resets = tally(
            "connection_resets_total",
            "Connections that were reset because their endpoint has left",
            LABELS,
        )
        self._ejections = tally(
            "endpoint_ejections_total",
            "Times that an endpoint was left out for a while because it failed",
            LABELS,
        )

    def families(self) -> list[MetricFamily]:
        """All of them."""
        return [
            *(each.family for each in (self._failures, self._resets, self._ejections)),
            self._gauge("ejected_endpoints", "Endpoints that are left out now", self._counts),
            self._gauge(
                "ejection_limit_reached",
                "1 where an endpoint failed in the last minute that should be left out, but too"
                " many are",
                lambda: ((family, name, 1) for family, name in self.at_limit()),
            ),
        ]

    def observe(self, observation: Observation) -> None:
        """Take note."""
        match observation:
            case ConnectionsFailed(family=family, failures=failures):
                self._failed(family, failures)
            case EndpointEjected(family=family, ejection=ejection):
                self._ejections.add(series_of(family, ejection.name, ejection.endpoint))
            case EjectionWithheld(family=family, name=name):
                self._withheld[family, name] = self._clock()
            case SyncEnded(family=family, changes=changes) if changes.removed:
                self._forget(family, [entry.name for entry in changes.removed])
            case _:
                pass

    def _failed(self, family: Family, failures: Iterable[tuple[ServicePortName, Failure]]) -> None:
        """Count; many clients may have met the same endpoint."""
        now = self._clock()
        counts: Counter[tuple[ServicePortName, Endpoint, Reason]] = Counter()
        for name, failure in failures:
            self.recent.add(family, name, failure, now)
            counts[name, failure.endpoint, failure.reason] += failure.times
        for (name, endpoint, reason), times in counts.items():
            if reason is Reason.GONE:
                self._resets.add(series_of(family, name, endpoint), times)
            else:
                self._failures.add(series_of(family, name, endpoint, reason.value), times)

    def _forget(self, family: Family, names: Iterable[ServicePortName]) -> None:
        gone = {series_of(family, name) for name in names}

        def is_gone(series: Series) -> bool:
            return series._replace(endpoint="", reason="") in gone

        for tally in (self._failures, self._resets, self._ejections):
            tally.forget(is_gone)
        for at in [at for at in self._withheld if series_of(*at) in gone]:
            del self._withheld[at]

    def failures_of(
        self, family: Family, name: ServicePortName, endpoint: Endpoint
    ) -> dict[str, int]:
        """How often an endpoint has failed, by reason."""
        found = {
            reason.value: self._failures.of(series_of(family, name, endpoint, reason.value))
            for reason in _CONNECTS
        }
        found[Reason.GONE.value] = self._resets.of(series_of(family, name, endpoint))
        return {reason: count for reason, count in found.items() if count}

    def at_limit(self) -> list[tuple[Family, ServicePortName]]:
        """The service ports where one more endpoint should be left out."""
        since = self._clock() - AT_LIMIT
        self._withheld = {at: when for at, when in self._withheld.items() if when > since}
        return list(self._withheld)

    def _counts(self) -> Iterator[tuple[Family, ServicePortName, int]]:
        for family, by_name in self._left_out().items():
            for name, ejections in by_name.items():
                yield family, name, len(ejections)

    def _gauge(
        self,
        name: str,
        help_: str,
        read: Callable[[], Iterable[tuple[Family, ServicePortName, int]]],
    ) -> Reading:
        def samples() -> Iterator[Sample]:
            rest = 0
            for number, (family, of, value) in enumerate(read()):
                fits = self._limits.detail is not Detail.NONE and self._limits.allow(number + 1)
                if fits:
                    yield Sample(label_text(OF_SERVICE_PORT, series_of(family, of)[:5]), value)
                else:
                    rest += value
            yield Sample(label_text(OF_SERVICE_PORT, Series()[:5]), rest)

        about = About(f"kubeproxy_{name}", MetricKind.GAUGE, f"[ALPHA] {help_}", OF_SERVICE_PORT)
        return Reading(about, samples)


def in_force(entry: Entry, ejections: Iterable[Ejection]) -> tuple[Ejection, ...]:
    """Those whose endpoint is left out of a list of the entry."""
    out = {(each.address, each.port) for each in entry.ejected}
    if entry.cluster:  # of which one may be in the list of this node
        listed = {(each.address, each.port) for each in entry.cluster}
        local = {(each.address, each.port) for each in entry.local}
        out |= local - listed
    return tuple(each for each in ejections if each.endpoint in out)
