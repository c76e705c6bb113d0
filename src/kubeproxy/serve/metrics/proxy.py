"""The kubeproxy_* families: names, labels and buckets are upstream's, which dashboards know.

An observer keeps them. Which there are depends on the mode; docs/metrics.md has the list, and says
where a figure means something else than upstream's.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import assert_never

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.mode import Mode
from kubeproxy.engine.observer import (
    ConnectionsFailed,
    EjectionWithheld,
    EndpointEjected,
    EndpointTriedAgain,
    FlowsCleaned,
    LoopStarted,
    ObjectReceived,
    Observation,
    SyncEnded,
    SyncRequested,
    SyncStarted,
)
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.metrics.families import Counter, Gauge, Histogram, MetricFamily
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.policy import Refusal, Scope

EXPONENTIAL = tuple(0.001 * 2**n for n in range(15))
PROGRAMMING = (*(0, 0.25, 0.5), *range(1, 60), *range(60, 120, 5), *range(120, 301, 30))

_PREFIX = "kubeproxy_sync_proxy_rules_"


def _histogram(name: str, help_: str, bounds: tuple[float, ...] = EXPONENTIAL) -> Histogram:
    return Histogram(f"kubeproxy_{name}", f"[ALPHA] {help_}", bounds, ("ip_family",))


def _gauge(name: str, help_: str, *labels: str) -> Gauge:
    return Gauge(_PREFIX + name, f"[ALPHA] {help_}", labels)


class ProxyMetrics:
    """Keeps the families of one run.

    `clock` is Unix time; the process starts now.
    """

    def __init__(
        self, mode: Mode, families: tuple[Family, ...], clock: Callable[[], float]
    ) -> None:
        self._mode = mode
        self._clock = clock
        self._changes = _ChangeMetrics(families)
        self._programming = _Programming(families, clock())
        self._unserved = _Unserved(families)
        self._durations = _histogram(
            "sync_proxy_rules_duration_seconds", "Seconds that a sync took"
        )
        self._full = _histogram(
            "sync_full_proxy_rules_duration_seconds", "Seconds that a full sync took"
        )
        self._partial = _histogram(
            "sync_partial_proxy_rules_duration_seconds", "Seconds that a sync of changes took"
        )
        self._ended = _gauge(
            "last_timestamp_seconds", "When a sync last succeeded, 0 before the first", "ip_family"
        )
        for family in families:
            # Upstream has no series yet, so that alerts do not see a node that never synced.
            self._ended.set(0.0, family.value)
        self._queued = _gauge(
            "last_queued_timestamp_seconds", "When a sync was last requested", "ip_family"
        )
        self._failed = Gauge(
            "kubeproxy_service_ports_failed",
            "Service ports that could not be programmed and are tried again",
            ("ip_family",),
        )
        by_table = ("table", "ip_family")
        self._rules = _gauge("iptables_total", "Rules of kube-proxy", *by_table)
        self._written = _gauge(
            "iptables_last", "Rules written by the last sync that wrote any", *by_table
        )
        self._flows_seconds = _histogram(
            "conntrack_reconciler_sync_duration_seconds",
            "Seconds that a search for stale UDP flows took",
        )
        self._flows_deleted = Counter(
            "kubeproxy_conntrack_reconciler_deleted_entries_total",
            "[ALPHA] Stale UDP flows that were deleted",
            ("ip_family",),
        )

    def families(self) -> list[MetricFamily]:
        """Those that the mode has."""
        found: list[MetricFamily] = [self._durations, self._ended, self._queued, self._failed]
        found += (self._programming.latency, *self._unserved.gauges, *self._changes.families())
        found += (self._flows_seconds, self._flows_deleted)
        if self._mode.times_full_syncs:
            found += (self._full, self._partial)
        if self._mode.counts_rules:
            found += (self._rules, self._written)
        return found

    def observe(self, observation: Observation) -> None:
        """Update the families with an observation."""
        match observation:
            case ObjectReceived():
                if observation.kind is Kind.ENDPOINT_SLICE:
                    self._changes.slice_received(observation)
                    self._programming.received(observation)
                elif observation.kind is Kind.SERVICE:
                    self._changes.service_received(observation)
            case SyncRequested() | LoopStarted():
                self._queued.set(self._clock(), observation.family.value)
            case SyncStarted():
                self._changes.began(observation.family)
                self._programming.began(observation.family)
            case SyncEnded():
                self._sync_ended(observation)
            case FlowsCleaned():
                family = observation.family.value
                self._flows_seconds.observe(observation.seconds, family)
                self._flows_deleted.add(family, by=observation.deleted)
            case (
                ConnectionsFailed() | EndpointEjected() | EndpointTriedAgain() | EjectionWithheld()
            ):
                pass  # these are in `serve.healing`
            case _:
                assert_never(observation)

    def _sync_ended(self, ended: SyncEnded) -> None:
        family = ended.family.value
        self._durations.observe(ended.seconds, family)
        (self._full if ended.full else self._partial).observe(ended.seconds, family)
        self._unserved.changed(ended.family, ended.changes)
        if ended.outcome is Outcome.FAILED or ended.report is None:
            return
        now = self._clock()
        self._ended.set(now, family)
        self._programming.succeeded(ended.family, now)
        self._unserved.show(ended.family, self._mode)
        self._failed.set(len(ended.report.failed), family)
        for table, rules in ended.report.rules.items():
            self._rules.set(rules.owned, table, family)
            self._written.set(rules.written, table, family)


class _ChangeMetrics:
    """Events received since the start, and those that wait for a sync."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._slices = Counter(
            f"{_PREFIX}endpoint_changes_total", "[ALPHA] EndpointSlice events received"
        )
        self._slices_pending = _gauge(
            "endpoint_changes_pending", "EndpointSlices that changed since the last sync began"
        )
        self._services = Counter(
            f"{_PREFIX}service_changes_total",
            "[ALPHA] Service events received, once for each IP family",
        )
        self._services_pending = _gauge(
            "service_changes_pending", "Services that changed since the last sync began"
        )
        self._waiting: dict[Family, set[ObjectKey]] = {family: set() for family in families}

    def families(self) -> tuple[MetricFamily, ...]:
        return (self._slices, self._slices_pending, self._services, self._services_pending)

    def slice_received(self, received: ObjectReceived) -> None:
        self._slices.add()
        if not self._waiting.keys().isdisjoint(received.families):
            self._slices_pending.add()

    def service_received(self, received: ObjectReceived) -> None:
        self._services.add(by=len(self._waiting))
        for family in received.families:
            waiting = self._waiting.get(family)
            if waiting is not None:
                waiting.add(received.key)
                self._services_pending.set(len(waiting))

    def began(self, family: Family) -> None:
        self._waiting[family].clear()
        self._services_pending.set(0)
        self._slices_pending.set(0)


class _Programming:
    """How long it took from a change of a slice until it was programmed.

    A change that a failed sync took up waits for the next one that succeeds, so that the time of
    the failure counts.
    """

    def __init__(self, families: Iterable[Family], since: float) -> None:
        self.latency = _histogram(
            "network_programming_duration_seconds",
            "Seconds from a change of endpoints until it is programmed on this node",
            PROGRAMMING,
        )
        self._since = since
        self._received: dict[Family, dict[ObjectKey, list[float]]] = {f: {} for f in families}
        self._underway: dict[Family, list[float]] = {family: [] for family in families}

    def received(self, received: ObjectReceived) -> None:
        if received.gone:
            for waiting in self._received.values():
                waiting.pop(received.key, None)
            return
        if not received.trigger or not received.families:
            return
        moment = parse_moment(received.trigger)
        if moment is None or moment < self._since:
            return
        for family in received.families:
            if family in self._received:  # on a node of one family, objects may have both
                self._received[family].setdefault(received.key, []).append(moment)

    def began(self, family: Family) -> None:
        received = self._received[family]
        for moments in received.values():
            self._underway[family] += moments
        received.clear()

    def succeeded(self, family: Family, now: float) -> None:
        for moment in self._underway[family]:
            self.latency.observe(now - moment, family.value)
        self._underway[family].clear()


def parse_moment(text: str) -> float | None:
    """The Unix time of an RFC 3339 text with a zone; None when it is something else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


class _Unserved:
    """Service ports that no endpoint serves; and those of policy Local, that none here serves.

    Kept from sync to sync, so that a sync costs what it changes. Some modes count Services.
    """

    def __init__(self, families: tuple[Family, ...]) -> None:
        self.gauge = _gauge(
            "no_local_endpoints_total",
            "Service ports of policy Local without an endpoint on this node",
            *("traffic_policy", "ip_family"),
        )
        self._anywhere = Gauge(
            "kubeproxy_service_ports_without_endpoint",
            "Service ports of which no endpoint can serve, on any node",
            ("ip_family",),
        )
        self.gauges = (self.gauge, self._anywhere)
        self._nowhere: dict[Family, set[ServicePortName]] = {family: set() for family in families}
        self._names: dict[Family, dict[str, set[ServicePortName]]] = {
            family: {"internal": set(), "external": set()} for family in families
        }

    def changed(self, family: Family, changes: Changes) -> None:
        internal, external = self._names[family].values()
        nowhere = self._nowhere[family]
        for entry in changes.removed:
            for names in (internal, external, nowhere):
                names.discard(entry.name)
        for entry in (*changes.added, *(after for _, after in changes.changed)):
            (nowhere.discard if entry.has_endpoints else nowhere.add)(entry.name)
            for names, policy in ((internal, entry.internal), (external, entry.external)):
                scope = policy.outside.scope
                if scope is Scope.LOCAL and entry.refusal(scope) is Refusal.DROP:
                    names.add(entry.name)
                else:
                    names.discard(entry.name)

    def show(self, family: Family, mode: Mode) -> None:
        self._anywhere.set(len(self._nowhere[family]), family.value)
        for policy, names in self._names[family].items():
            count = len({name[:2] for name in names} if mode.counts_services else names)
            self.gauge.set(count, policy, family.value)
