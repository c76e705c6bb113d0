"""Whole pages: in order, and safe whatever names there are. What is wrong comes first."""

from collections.abc import Iterator
from functools import cache
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeproxy.serve.status.services import Search
from kubeproxy.serve.status.web.detail import service_page
from kubeproxy.serve.status.web.explain import Explained
from kubeproxy.serve.status.web.home import (
    family_health,
    home,
    not_found,
    state_section,
    sync_section,
)
from kubeproxy.serve.status.web.markup import Markup
from kubeproxy.serve.status.wire import (
    DaemonStatus,
    FamilyStatus,
    FastPathStatus,
    NotProgrammed,
    ServiceRates,
    Sync,
)
from serve.status.web.parsed import Parsed, Structure
from serve.status.web.samples import (
    CLAIMED,
    DETAIL,
    EXPLANATION,
    HOSTILE,
    IPV4,
    IPV6,
    LEFT_OUT,
    LIST,
    NOW,
    PORT,
    RATES,
    REFUSED,
    STATUS,
    SYNC,
    WEB,
)

T = TypeVar("T")

replace = msgspec.structs.replace
STAMPS = {"ended", "started", "now"}
SICK = replace(
    IPV4,
    not_programmed=(REFUSED,),
    conflicts=(CLAIMED,),
    left_out=(LEFT_OUT,),
    at_ejection_limit=("shop/web:http",),
    failed_connections=1234,
)
SICK_STATUS = replace(STATUS, node_eligible=False, families=(SICK, IPV6))
HOME = (
    SICK_STATUS,
    RATES,
    Explained("outside", "shop/web", (EXPLANATION,), "it makes no sense"),
    replace(LIST, total=9, matching=9, services=(replace(WEB, problems=("bad",)),)),
    Search("web"),
)
SERVICE = replace(DETAIL, ports=(replace(PORT, not_programmed="bad", conflicts=(CLAIMED,)),))


def called(value: T, name: str) -> T:
    """The value with every text in it replaced, but for times."""
    if isinstance(value, str):
        return name  # type: ignore[return-value]  # T is str here
    if isinstance(value, tuple):
        return type(value)(called(each, name) for each in value)
    if isinstance(value, dict):
        return dict.fromkeys([name], 1.0)  # type: ignore[return-value]  # T is dict
    if isinstance(value, msgspec.Struct):
        fields = {
            field.name: called(getattr(value, field.name), name)
            for field in msgspec.structs.fields(value)
            if field.name not in STAMPS
        }
        return replace(value, **fields)
    return value


def pages(name: str) -> Iterator[Iterator[Markup]]:
    """Every page, with this name for everything."""
    yield home(*called(HOME, name))
    yield service_page(called(SERVICE, name))
    yield not_found(name, name)


def test_the_order_of_the_first_page() -> None:
    found = Parsed(home(*HOME))
    assert [id_ for id_ in found.values("id") if id_ in ORDER] == ORDER


ORDER = ["main", "state", "explain", "ask", "answer", "services", "search", "found", "syncs"]


def test_connections_that_fail() -> None:
    assert "Endpoints failed1,234 connections in the last minute" in Parsed(home(*HOME)).text


def test_the_parts_are_those_of_the_page() -> None:
    whole = "".join(piece.text for piece in home(*HOME))
    for part in (state_section(SICK_STATUS, RATES), sync_section(SICK_STATUS)):
        assert "".join(piece.text for piece in part) in whole


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(HOSTILE, id="html"),
        pytest.param("\"'`><script>alert(1)</script>", id="quotes"),
        pytest.param("javascript:alert(1)", id="a-scheme"),
        pytest.param("//example.com/", id="an-address"),
        pytest.param("</main></body></html><!--", id="ends-and-comments"),
        pytest.param("&lt;&#x3c;&amp;", id="references"),
        pytest.param("../../%2e%2e/?a=b#c", id="a-path"),
        pytest.param("\u202e\x00\u2028", id="unseen"),
    ],
)
def test_a_name_changes_nothing_but_text(name: str) -> None:
    assert_only_text_differs(name)


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1))
def test_every_name_is_text(name: str) -> None:
    assert_only_text_differs(name)


@cache
def plain_structures() -> list[Structure]:
    return [Parsed(page).structure for page in pages("x")]


def assert_only_text_differs(name: str) -> None:
    for expected, page in zip(plain_structures(), pages(name), strict=True):
        found = Parsed(page)
        assert expected == found.structure
        for place in (*found.values("href"), *found.values("action"), *found.values("src")):
            assert place.startswith(("/status", "/rules", "/metrics", "#main", "data:image/svg"))


def test_names_are_shown_as_they_are() -> None:
    for page in pages(HOSTILE):
        assert HOSTILE in Parsed(page).text


# --- the latest syncs -------------------------------------------------------------------------


def history(length: int) -> tuple[Sync, ...]:
    return tuple(
        msgspec.structs.replace(SYNC, ended=f"2026-03-01T11:{n // 60:02d}:{n % 60:02d}Z")
        for n in range(length)
    )


def test_the_syncs_of_both_families_newest_first() -> None:
    first, second, third = history(3)
    failed = msgspec.structs.replace(second, outcome="failed")
    families = (
        msgspec.structs.replace(IPV4, history=(first, third)),
        msgspec.structs.replace(IPV6, history=(failed,)),
    )
    found = Parsed(sync_section(msgspec.structs.replace(STATUS, families=families)))
    assert found.values("datetime") == [third.ended, second.ended, first.ended]
    assert found.count("details") == 0
    assert "11:00:01IPv6what changed0.8 ms0104failed" in found.text


def test_older_syncs_are_folded_away_and_the_oldest_left_out() -> None:
    found = Parsed(
        sync_section(
            msgspec.structs.replace(
                STATUS, families=(msgspec.structs.replace(IPV4, history=history(100)),)
            )
        )
    )
    assert "48 older syncs" in found.text
    assert len(found.values("datetime")) == 60


# --- the daemon at a glance -------------------------------------------------------------------


def shown(status: DaemonStatus, rates: ServiceRates = RATES) -> Parsed:
    return Parsed(state_section(status, rates))


def test_the_fast_path_where_it_is_wanted() -> None:
    path = FastPathStatus(
        wanted=True,
        on=True,
        reason="",
        why_not="",
        after_packets=20,
        devices=("eth0",),
        left_out=(),
        connections={"IPv4": 5},
    )
    assert "fast path" not in shown(STATUS).text
    found = shown(msgspec.structs.replace(STATUS, fast_path=path)).text
    assert "fast path: 5 connections, each after 20 packets; 1 device" in found


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


def test_what_unfolds_has_a_name_so_that_it_stays_open() -> None:
    many = tuple(NotProgrammed(f"shop/s{n}", "TCP", "why") for n in range(9))
    family = replace(IPV4, not_programmed=many)
    found = shown(replace(STATUS, families=(family, replace(family, ip_family="IPv6"))))
    assert [name for name in found.values("id") if "trouble" in name] == [
        "trouble-0",
        "trouble-1",
    ]


def test_rates_before_the_counters_were_read_twice() -> None:
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
