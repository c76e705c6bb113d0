"""The daemon at a glance: health in words, troubles first, syncs newest first."""

import msgspec
import pytest

from kubeproxy.status.web.overview import family_health, footer, state, syncs
from kubeproxy.status.wire import FamilyStatus, NotProgrammed, Rates, Status, Sync
from status.web.parsed import Parsed
from status.web.samples import CLAIMED, IPV4, IPV6, NOW, RATES, REFUSED, STATUS, SYNC

replace = msgspec.structs.replace


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(IPV4, ("programmed", "good"), id="well"),
        pytest.param(IPV6, ("waiting for the cluster", "warn"), id="not-yet"),
        pytest.param(replace(IPV4, healthy=False), ("not healthy", "bad"), id="behind"),
        pytest.param(
            replace(IPV4, not_programmed=(REFUSED,)), ("partly programmed", "warn"), id="refused"
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="partly")),
            ("partly programmed", "warn"),
            id="partly",
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="failed")),
            ("sync failed", "bad"),
            id="failed",
        ),
        pytest.param(
            replace(IPV4, last_sync=replace(SYNC, outcome="new")), ("new", "warn"), id="unknown"
        ),
    ],
)
def test_the_health_of_a_family(family: FamilyStatus, expected: tuple[str, str]) -> None:
    assert expected == family_health(family)


def shown(status: Status, rates: Rates = RATES) -> Parsed:
    return Parsed(state(status, rates))


def test_a_daemon_that_is_well() -> None:
    found = shown(STATUS)
    assert "healthy" in found.text
    assert "812 services, 2,409 frontends, 24,360 endpoints" in found.text
    assert "0.8 ms, 3 s ago" in found.text
    assert "430 ms, 30 min 10 s ago" in found.text
    assert "15.5 new connections per second" in found.text
    assert "alert" not in found.values("role")
    assert found.values("data-syncs") == ["2"]


def test_what_is_wrong_stands_above_the_families() -> None:
    family = replace(IPV4, not_programmed=(REFUSED,), waiting_seconds=3.0)
    found = shown(replace(STATUS, healthy=False, families=(family, IPV6)))
    assert found.text.startswith("not healthy")
    assert found.text.index("no space left") < found.text.index("24,360 endpoints")
    assert "Waitingchanges, for 3 s" in found.text
    assert "box bad" in found.values("class")
    assert "none yet" in found.text


def test_what_stops_no_traffic_is_a_warning() -> None:
    found = shown(replace(STATUS, families=(replace(IPV4, conflicts=(CLAIMED,)),)))
    assert "box warn" in found.values("class")


def test_of_many_cases_the_first_are_shown() -> None:
    many = tuple(NotProgrammed(f"shop/s{n}", "TCP", "why") for n in range(25))
    found = shown(replace(STATUS, families=(replace(IPV4, not_programmed=many),)))
    assert found.count("li") == 20
    assert "and 5 more" in found.text


def test_rates_that_nobody_has_looked_at_yet() -> None:
    assert "\u2013 new connections per second" in shown(STATUS, Rates(NOW, 0.0, {})).text


def test_a_mode_that_counts_no_connections() -> None:
    assert "connections" not in shown(replace(STATUS, counts_connections=False)).text


def history(length: int) -> tuple[Sync, ...]:
    return tuple(
        replace(SYNC, ended=f"2026-03-01T11:{n // 60:02d}:{n % 60:02d}Z") for n in range(length)
    )


def test_the_syncs_of_both_families_newest_first() -> None:
    first, second, third = history(3)
    failed = replace(second, outcome="failed")
    families = (
        replace(IPV4, history=(first, third)),
        replace(IPV6, history=(failed,)),
    )
    found = Parsed(syncs(replace(STATUS, families=families)))
    assert found.values("datetime") == [third.ended, second.ended, first.ended]
    assert found.count("details") == 0
    assert "11:00:01IPv6what changed0.8 ms0104failed" in found.text


def test_older_syncs_are_folded_away_and_the_oldest_left_out() -> None:
    found = Parsed(syncs(replace(STATUS, families=(replace(IPV4, history=history(100)),))))
    assert "48 older syncs" in found.text
    assert len(found.values("datetime")) == 60


@pytest.mark.parametrize(
    ("file", "expected"), [("", "flags only"), ("/etc/kube-proxy.conf", "/etc/kube-proxy.conf")]
)
def test_the_footer(file: str, expected: str) -> None:
    found = Parsed([footer(replace(STATUS, config_file=file))])
    assert expected in found.text
    assert "API server https://192.0.2.1:6443" in found.text
    assert found.values("href") == ["/status?format=json", "/rules", "/metrics"]
