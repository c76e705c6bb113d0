"""The daemon at a glance: what is wrong comes first."""

import msgspec
import pytest

from kubeproxy.serve.status.web.overview import family_health, state
from kubeproxy.serve.status.wire import DaemonStatus, FamilyStatus, NotProgrammed, ServiceRates
from serve.status.web.parsed import Parsed
from serve.status.web.samples import CLAIMED, IPV4, IPV6, NOW, RATES, REFUSED, STATUS, SYNC

replace = msgspec.structs.replace


def shown(status: DaemonStatus, rates: ServiceRates = RATES) -> Parsed:
    return Parsed(state(status, rates))


def test_a_daemon_that_is_well() -> None:
    found = shown(STATUS)
    assert "healthy" in found.text
    assert "812 services, 2,409 frontends, 24,360 endpoints" in found.text
    assert "0.8 ms, 3 s ago" in found.text
    assert "430 ms, 30 min 10 s ago" in found.text
    assert "15.5 new connections per second" in found.text
    assert "What is wrong" not in found.values("aria-label")
    assert found.values("data-syncs") == ["2"]


def test_what_is_wrong_stands_above_the_families() -> None:
    family = replace(IPV4, not_programmed=(REFUSED,), waiting_seconds=3.0)
    found = shown(replace(STATUS, healthy=False, families=(family, IPV6)))
    assert found.text.startswith("not healthy")
    assert found.text.index("no space left") < found.text.index("24,360 endpoints")
    assert "Waitingchanges, for 3 s" in found.text
    assert "What is wrong" in found.values("aria-label")
    assert "box bad" in found.values("class")
    assert "none yet" in found.text


def test_what_stops_no_traffic_is_a_warning() -> None:
    found = shown(replace(STATUS, families=(replace(IPV4, conflicts=(CLAIMED,)),)))
    assert "box warn" in found.values("class")


@pytest.mark.parametrize(
    ("cases", "listed", "words"),
    [
        pytest.param(5, 5, (), id="all"),
        pytest.param(25, 25, ("20 more",), id="some-unfold"),
        pytest.param(
            2000, 105, ("1,995 more", "and 1,895: the JSON below has all"), id="too-many-to-list"
        ),
    ],
)
def test_of_many_cases_a_few_are_in_sight(cases: int, listed: int, words: tuple[str, ...]) -> None:
    many = tuple(NotProgrammed(f"shop/s{n}", "TCP", "why") for n in range(cases))
    found = shown(replace(STATUS, families=(replace(IPV4, not_programmed=many),)))
    assert found.count("li") == listed
    assert found.count("details") == bool(words)
    assert [each for each in words if each not in found.text] == []


def test_what_somebody_unfolds_has_a_name_so_that_it_stays_open() -> None:
    many = tuple(NotProgrammed(f"shop/s{n}", "TCP", "why") for n in range(9))
    family = replace(IPV4, not_programmed=many)
    found = shown(replace(STATUS, families=(family, replace(family, ip_family="IPv6"))))
    assert [name for name in found.values("id") if "trouble" in name] == [
        "trouble-0",
        "trouble-1",
    ]


def test_rates_that_nobody_has_looked_at_yet() -> None:
    assert "\u2013 new connections per second" in shown(STATUS, ServiceRates(NOW, 0.0, {})).text


def test_a_mode_that_counts_no_connections() -> None:
    assert "connections" not in shown(replace(STATUS, counts_connections=False)).text


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
