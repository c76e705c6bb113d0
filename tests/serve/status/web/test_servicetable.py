"""The table of services: what a row says, how it is searched and sorted."""

import msgspec
import pytest

from kubeproxy.serve.status.services import Search, Sort
from kubeproxy.serve.status.web.servicetable import services
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from serve.status.web.parsed import Parsed
from serve.status.web.samples import LIST, WEB

replace = msgspec.structs.replace
ALL = Search()


def shown(*found: ServiceSummary, search: Search = ALL) -> Parsed:
    return Parsed(services(replace(LIST, services=found), search))


def test_a_row() -> None:
    found = shown(WEB)
    assert "shop/web10.112.0.20fd12::20http:80/TCPnode port 310803 of 41,23412.5" in found.text
    assert "/status/services/shop/web" in found.values("href")
    assert found.values("data-spark") == ["shop/web"]
    assert found.values("data-rate") == ["shop/web"]


@pytest.mark.parametrize(
    ("used", "every", "expected"),
    [(3, 3, "3"), (2, 3, "2 of 3"), (0, 3, "none of 3"), (0, 0, "none")],
)
def test_endpoints(used: int, every: int, expected: str) -> None:
    found = shown(replace(WEB, endpoints_used=used, endpoints=every))
    assert f"node port 31080{expected}1,234" in found.text
    assert ("bad" in found.values("class")) == (not used)


def test_many_addresses_are_cut_short() -> None:
    found = shown(replace(WEB, addresses=tuple(f"10.112.0.{n}" for n in range(9))))
    assert "10.112.0.010.112.0.1and 7 more" in found.text


def test_problems_stand_beside_the_name() -> None:
    assert "shop/webnot served10.112" in shown(replace(WEB, problems=("not served",))).text


def test_a_mode_that_counts_no_connections() -> None:
    found = Parsed(services(replace(LIST, counts_connections=False), ALL))
    assert found.count("th") == found.count("td") == 4


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (Sort.NAME, ["ascending"]),
        (Sort.CONNECTIONS, ["descending"]),
        (Sort.RATE, ["descending"]),
    ],
)
def test_sorting(sort: Sort, expected: list[str]) -> None:
    found = shown(WEB, search=Search("a b", sort))
    assert expected == found.values("aria-sort")
    links = [href for href in found.values("href") if "sort=" in href]
    assert links == [f"/status?q=a+b&sort={by}#services" for by in ("name", "connections", "rate")]


@pytest.mark.parametrize(
    ("words", "total", "matching", "expected"),
    [
        ("", 8000, 8000, "8,000 services"),
        (" ", 1, 1, "1 service"),
        ("web", 8000, 1, "1 of 8,000 services matches web"),
        ("web", 8000, 12, "12 of 8,000 services match web"),
    ],
)
def test_how_many(words: str, total: int, matching: int, expected: str) -> None:
    found = Parsed(services(ServiceList("ipvs", total, matching, False, (WEB,)), Search(words)))
    assert expected in found.text
    assert (f"1\u20131 of {matching:,}" in found.text) == (matching > 1)


@pytest.mark.parametrize(
    ("offset", "shown", "where", "ways"),
    [
        (0, 200, "1\u2013200 of 450", ["&offset=200"]),
        (200, 200, "201\u2013400 of 450", ["", "&offset=400"]),
        (400, 50, "401\u2013450 of 450", ["&offset=200"]),
    ],
)
def test_pages(offset: int, shown: int, where: str, ways: list[str]) -> None:
    rows = tuple(replace(WEB, service=f"web-{number}") for number in range(shown))
    search = Search(limit=200, problems=True, offset=offset)
    found = Parsed(services(ServiceList("ipvs", 5000, 450, False, rows), search))
    assert where in found.text
    assert "450 of 5,000 services have problems" in found.text
    _, *links = [href for href in found.values("href") if "sort=" in href]
    assert [f"/status?q=&sort=name&problems=true{way}#services" for way in ways] == links


def test_problems_of_a_search() -> None:
    found = Parsed(
        services(ServiceList("ipvs", 9, 1, False, (WEB,)), Search("web", problems=True))
    )
    assert "1 of 9 services has problems and matches web" in found.text
    assert "" in found.values("checked")


def test_nothing_found() -> None:
    found = Parsed(services(ServiceList("ipvs", 3, 0, False, ()), Search("x")))
    assert "0 of 3 services match x" in found.text
    assert found.count("table") == 0
