import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import Rules, SyncReport
from kubeproxy.dataplane.failures import Endpoint, Reason
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import all_modes
from kubeproxy.engine.ejection import Ejection
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
from kubeproxy.serve.metrics.proxy import PROGRAMMING, ProxyMetrics, parse_moment
from kubeproxy.table.diff import NO_CHANGES, Changes
from kubeproxy.table.entries import Backend, Entry, ServicePortName
from kubeproxy.table.policy import policies
from serve.metrics.exposed import shown

NFTABLES, IPTABLES, IPVS, _ = all_modes()
PREFIX = "kubeproxy_sync_proxy_rules_"
IPV4, IPV6 = Family.IPV4, Family.IPV6
START = 1_000_000_000.0  # 2001-09-09T01:46:40Z
HERE = Backend("10.64.3.11", 80, local=True)
AWAY = Backend("10.65.7.21", 80)


class Observing:
    """Metrics that observe at times that the test sets."""

    def __init__(
        self, mode: Mode = NFTABLES, families: tuple[Family, ...] = tuple(Family)
    ) -> None:
        self.now = START
        self.metrics = ProxyMetrics(mode, families, lambda: self.now)

    def observe(self, *observations: Observation, at: float = 0.0) -> None:
        self.now = START + at
        for observation in observations:
            self.metrics.observe(observation)

    def value(self, series: str) -> str | None:
        return shown(*self.metrics.families()).get(series)

    def values(self, part: str) -> dict[str, str]:
        found = shown(*self.metrics.families()).items()
        return {series.removeprefix(PREFIX): value for series, value in found if part in series}


def received(
    kind: Kind = Kind.ENDPOINT_SLICE,
    *families: Family,
    name: str = "cart",
    gone: bool = False,
    trigger: str = "",
) -> ObjectReceived:
    return ObjectReceived(kind, ObjectKey("shop", name), families, gone, trigger)


def ended(
    family: Family = IPV4,
    outcome: Outcome = Outcome.OK,
    *,
    full: bool = False,
    changes: Changes = NO_CHANGES,
    report: SyncReport | None = None,
) -> SyncEnded:
    report = None if outcome is Outcome.FAILED else report or SyncReport()
    return SyncEnded(family, outcome, full, 0.003, changes, report)


def entry(
    port: str = "http", *, service: str = "cart", local: bool = False, local_policies: str = ""
) -> Entry:
    internal, external = policies(
        internal_local="i" in local_policies, external_local="e" in local_policies
    )
    return Entry(
        ServicePortName("shop", service, port, Protocol.TCP),
        (),
        cluster=(AWAY,),
        local=(HERE,) if local else (),
        has_endpoints=True,
        internal=internal,
        external=external,
    )


def test_the_bounds_of_network_programming_are_upstreams() -> None:
    assert len(PROGRAMMING) == 81
    assert PROGRAMMING[:5] == (0, 0.25, 0.5, 1, 2)
    assert PROGRAMMING[60:64] == (58, 59, 60, 65)
    assert PROGRAMMING[-8:] == (115, 120, 150, 180, 210, 240, 270, 300)


@pytest.mark.parametrize(
    ("full", "kind"),
    [pytest.param(True, "full", id="full"), pytest.param(False, "partial", id="partial")],
)
@pytest.mark.parametrize("outcome", Outcome)
def test_every_sync_is_timed_good_or_bad(full: bool, kind: str, outcome: Outcome) -> None:
    it = Observing()
    it.observe(ended(outcome=outcome, full=full))
    counts = {
        series: value
        for series, value in it.values("duration_seconds_count").items()
        if "conntrack" not in series
    }
    assert counts == {
        'duration_seconds_count{ip_family="IPv4"}': "1",
        f'kubeproxy_sync_{kind}_proxy_rules_duration_seconds_count{{ip_family="IPv4"}}': "1",
    }
    bucket = PREFIX + 'duration_seconds_bucket{ip_family="IPv4",le="%s"}'
    assert (it.value(bucket % "0.002"), it.value(bucket % "0.004")) == ("0", "1")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Outcome.OK, "1.000000007e+09", id="ok"),
        pytest.param(Outcome.PARTLY, "1.000000007e+09", id="others-were-programmed"),
        pytest.param(Outcome.FAILED, "0", id="failed"),
    ],
)
def test_the_time_of_the_last_success_is_0_before_the_first(
    outcome: Outcome, expected: str
) -> None:
    it = Observing()
    series = 'last_timestamp_seconds{ip_family="%s"}'
    assert {series % "IPv4": "0", series % "IPv6": "0"} == it.values("last_timestamp")
    it.observe(ended(outcome=outcome), at=7)
    assert {series % "IPv4": expected, series % "IPv6": "0"} == it.values("last_timestamp")
    it.observe(ended(outcome=Outcome.FAILED), at=8)
    assert {series % "IPv4": expected, series % "IPv6": "0"} == it.values("last_timestamp")


def test_the_time_of_the_last_request() -> None:
    it = Observing()
    it.observe(LoopStarted(IPV6), at=1)
    assert it.values("queued") == {
        'last_queued_timestamp_seconds{ip_family="IPv6"}': "1.000000001e+09"
    }
    it.observe(SyncRequested(IPV6, 3), at=2)
    assert it.values("queued") == {
        'last_queued_timestamp_seconds{ip_family="IPv6"}': "1.000000002e+09"
    }


def test_slices_are_counted_and_wait_for_either_family() -> None:
    it = Observing()
    it.observe(
        received(Kind.ENDPOINT_SLICE, IPV4), received(Kind.ENDPOINT_SLICE, IPV4), received()
    )
    assert it.values("endpoint_changes") == {
        "endpoint_changes_pending": "2",
        "endpoint_changes_total": "3",
    }
    it.observe(SyncStarted(IPV6))
    assert it.values("endpoint_changes") == {
        "endpoint_changes_pending": "0",
        "endpoint_changes_total": "3",
    }


def test_services_are_counted_once_for_each_family() -> None:
    it = Observing()
    it.observe(
        received(Kind.SERVICE, IPV4, name="a"),
        received(Kind.SERVICE, IPV4, name="b"),
        received(Kind.SERVICE, IPV4, name="b"),
        received(Kind.SERVICE, name="headless"),
        received(Kind.NODE, name="kestrel"),
    )
    assert it.values("service_changes") == {
        "service_changes_pending": "2",
        "service_changes_total": "8",
    }
    it.observe(SyncStarted(IPV4))
    assert it.value(PREFIX + "service_changes_pending") == "0"


SOON = "2001-09-09T01:46:41.500000000Z"


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        pytest.param([received(Kind.ENDPOINT_SLICE, IPV4, trigger=SOON)], "8.5", id="measured"),
        pytest.param(
            [received(Kind.ENDPOINT_SLICE, IPV4, trigger=SOON)] * 2, "17", id="each-change-counts"
        ),
        pytest.param(
            [received(Kind.ENDPOINT_SLICE, IPV4, trigger="2001-09-09T03:46:41.5+02:00")],
            "8.5",
            id="in-another-zone",
        ),
        pytest.param([received(Kind.ENDPOINT_SLICE, IPV4)], None, id="without-annotation"),
        pytest.param(
            [received(Kind.ENDPOINT_SLICE, IPV4, trigger="later")], None, id="unreadable"
        ),
        pytest.param(
            [received(Kind.ENDPOINT_SLICE, IPV4, trigger="2001-09-09T01:46:41")],
            None,
            id="without-zone",
        ),
        pytest.param(
            [received(Kind.ENDPOINT_SLICE, IPV4, trigger="2001-09-09T01:46:39Z")],
            None,
            id="before-the-process-started",
        ),
        pytest.param([received(Kind.ENDPOINT_SLICE, trigger=SOON)], None, id="nothing-changed"),
        pytest.param([received(Kind.ENDPOINT_SLICE, IPV6, trigger=SOON)], None, id="other-family"),
        pytest.param(
            [
                received(Kind.ENDPOINT_SLICE, IPV4, trigger=SOON),
                received(Kind.ENDPOINT_SLICE, IPV4, gone=True),
            ],
            None,
            id="deleted-since",
        ),
        pytest.param(
            [
                received(Kind.ENDPOINT_SLICE, IPV4, trigger=SOON),
                SyncStarted(IPV4),
                ended(outcome=Outcome.FAILED),
            ],
            "8.5",
            id="a-failed-sync-does-not-count",
        ),
    ],
)
def test_network_programming_latency(
    observations: list[Observation], expected: str | None
) -> None:
    it = Observing()
    it.observe(*observations, at=2)
    it.observe(SyncStarted(IPV4))
    it.observe(ended(), ended(), at=10)
    series = 'kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"}'
    assert expected == it.value(series)


def test_a_change_during_a_sync_waits_for_the_next() -> None:
    it = Observing()
    it.observe(SyncStarted(IPV4), received(Kind.ENDPOINT_SLICE, IPV4, trigger=SOON), ended())
    assert it.values("programming") == {}
    it.observe(SyncStarted(IPV4))
    it.observe(ended(), at=2)
    assert (
        it.value('kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"}') == "0.5"
    )


def test_a_moment_with_nanoseconds() -> None:
    assert parse_moment("2001-09-09T01:46:40.123456789Z") == START + 0.123456


@pytest.mark.parametrize(
    ("mode", "entries", "internal", "external"),
    [
        pytest.param(NFTABLES, [entry(local_policies="ie")], "1", "1", id="no-endpoint-here"),
        pytest.param(NFTABLES, [entry(local_policies="i")], "1", "0", id="one-policy"),
        pytest.param(NFTABLES, [entry()], "0", "0", id="policy-cluster"),
        pytest.param(NFTABLES, [entry(local=True, local_policies="ie")], "0", "0", id="served"),
        pytest.param(
            IPTABLES,
            [entry("a", local_policies="e"), entry("b", local_policies="e")],
            "0",
            "2",
            id="ports-count",
        ),
        pytest.param(
            IPVS,
            [
                entry("a", local_policies="e"),
                entry("b", local_policies="e"),
                entry(service="x", local_policies="e"),
            ],
            "0",
            "2",
            id="in-ipvs-mode-services-count",
        ),
    ],
)
def test_services_without_endpoints_here(
    mode: Mode, entries: list[Entry], internal: str, external: str
) -> None:
    it = Observing(mode)
    it.observe(ended(changes=Changes(added=tuple(entries))))
    assert it.values("no_local") == {
        'no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"}': external,
        'no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"}': internal,
    }


def test_services_without_endpoints_here_follow_the_changes() -> None:
    it = Observing()
    a, b = entry("a", local_policies="e"), entry("b", local_policies="e")
    series = PREFIX + 'no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"}'
    it.observe(ended(changes=Changes(added=(a, b))))
    served = entry("a", local_policies="e", local=True)
    it.observe(ended(outcome=Outcome.FAILED, changes=Changes(changed=((a, served),))))
    assert it.value(series) == "2"  # as of the last sync that succeeded
    it.observe(ended())
    assert it.value(series) == "1"
    it.observe(ended(changes=Changes(removed=(b,))))
    assert it.value(series) == "0"


def test_rules_and_refused_service_ports() -> None:
    it = Observing(IPTABLES)
    failed = {entry().name: "no"}
    report = SyncReport(failed, 9, {"nat": Rules(33, 16), "filter": Rules(6, 6)})
    it.observe(ended(outcome=Outcome.PARTLY, report=report))
    it.observe(ended(outcome=Outcome.PARTLY, report=SyncReport(failed)))
    assert it.values("iptables") == {
        'iptables_last{ip_family="IPv4",table="filter"}': "6",
        'iptables_last{ip_family="IPv4",table="nat"}': "16",
        'iptables_total{ip_family="IPv4",table="filter"}': "6",
        'iptables_total{ip_family="IPv4",table="nat"}': "33",
    }
    assert it.value('kubeproxy_service_ports_failed{ip_family="IPv4"}') == "1"


def test_stale_flows() -> None:
    it = Observing()
    it.observe(FlowsCleaned(IPV4, 0.5, 3), FlowsCleaned(IPV4, 0.25, 0))
    assert {k: v for k, v in it.values("conntrack").items() if "bucket" not in k} == {
        'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}': "3",
        'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"}': "2",
        'kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"}': "0.75",
    }


def test_a_node_of_one_family_receives_objects_of_the_other() -> None:
    it = Observing(families=(IPV4,))
    it.observe(
        received(Kind.ENDPOINT_SLICE, IPV6, trigger=SOON), received(Kind.SERVICE, IPV6, IPV4)
    )
    assert {**it.values("endpoint_changes"), **it.values("service_changes")} == {
        "endpoint_changes_pending": "0",
        "endpoint_changes_total": "1",
        "service_changes_pending": "1",
        "service_changes_total": "1",
    }
    it.observe(SyncStarted(IPV4), ended(), at=10)
    assert it.values("programming") == {}


CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
OUT = Ejection(CART, Endpoint("10.64.3.11", 80), 5.0, Reason.REFUSED, 3, 2, 1)


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(ConnectionsFailed(IPV4, ()), id="failures"),
        pytest.param(EndpointEjected(IPV4, OUT, 5.0), id="left-out"),
        pytest.param(EndpointTriedAgain(IPV4, OUT), id="tried-again"),
        pytest.param(EjectionWithheld(IPV4, CART), id="at-the-limit"),
    ],
)
def test_what_fails_is_counted_elsewhere(observation: Observation) -> None:
    seen = Observing()
    before = seen.values("")
    seen.observe(observation)
    assert before == seen.values("")
