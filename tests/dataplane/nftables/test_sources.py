"""Lists of allowed sources: which entries share one, when it comes and goes, and its length."""

import msgspec
import pytest

from dataplane.nftables.programming import Rig, table_with
from kubeproxy.base.inet import Protocol, unpack
from kubeproxy.dataplane.nftables import names, sources
from kubeproxy.dataplane.nftables.apply import write
from kubeproxy.dataplane.nftables.elements import joined
from kubeproxy.dataplane.nftables.sources import (
    MOST_RANGES,
    Ranges,
    SourceChange,
    SourceLists,
    allowed_sources,
    list_elements,
    list_number,
)
from kubeproxy.dataplane.unfit import Unfit
from kubeproxy.table.entries import Entry, Frontend, FrontendKind, ServicePortName
from world import Mode, node, prefix

HERE = node(Mode.NFTABLES)
NAME = ServicePortName("shop", "web", "https", Protocol.TCP)
BALANCER = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 443)


def guarded(*ranges: str, port: int = 443, vip: str = "203.0.113.7") -> Entry:
    name = NAME._replace(port=str(port))
    at = Frontend(FrontendKind.LOAD_BALANCER, vip, port)
    return Entry(name, (at,), source_ranges=tuple(map(prefix, ranges)))


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        (["192.0.2.7/32"], ["192.0.2.7-192.0.2.7"]),
        (["10.0.0.0/8"], ["10.0.0.0-10.255.255.255"]),
        (["10.1.0.0/16", "10.0.0.0/8"], ["10.0.0.0-10.255.255.255"]),
        (["10.1.0.0/16", "10.0.0.0/16"], ["10.0.0.0-10.1.255.255"]),
        (["10.2.0.0/16", "10.0.0.0/16"], ["10.0.0.0-10.0.255.255", "10.2.0.0-10.2.255.255"]),
        (["0.0.0.0/0", "10.0.0.0/8"], ["0.0.0.0-255.255.255.255"]),
    ],
)
def test_ranges_that_overlap_or_touch_are_joined(ranges: list[str], expected: list[str]) -> None:
    entry = Entry(NAME, (BALANCER,), source_ranges=tuple(map(prefix, ranges)))
    assert expected == [f"{unpack(a)}-{unpack(b)}" for a, b in allowed_sources(entry)]


def test_no_source_is_allowed_where_ranges_are_of_another_family() -> None:
    assert allowed_sources(Entry(NAME, (BALANCER,), source_ranges=())) == ()
    assert joined([]) == []


def test_ports_with_the_same_ranges_share_a_list() -> None:
    rig = Rig(HERE)
    web = [guarded("192.0.2.0/24", "10.0.0.0/8", port=port) for port in range(1, 301)]
    other = guarded("192.0.2.0/24", vip="203.0.113.8")
    batch = rig.step([], [*web, other])
    assert len(batch.added[names.FIREWALL_IPS]) == 301
    assert len(batch.added[names.FIREWALL_SOURCES]) == 3


def test_a_list_goes_with_its_last_user() -> None:
    rig = Rig(HERE)
    web, shop = guarded("10.0.0.0/8", port=80), guarded("10.0.0.0/8", port=81)
    rig.step([], [web, shop])
    before = set(rig.table.sets[names.FIREWALL_SOURCES].elements)
    rig.step([web], [])
    assert before == set(rig.table.sets[names.FIREWALL_SOURCES].elements)
    rig.step([shop], [])
    assert not rig.table.sets[names.FIREWALL_SOURCES].elements
    assert rig.state.sources == SourceLists(last_number=1)


def test_an_empty_list_lets_no_source_in() -> None:
    rig = Rig(HERE)
    rig.step([], [guarded()])
    assert rig.table.sets[names.FIREWALL_IPS].elements
    assert not rig.table.sets[names.FIREWALL_SOURCES].elements


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("10.0.0.0/8",), ("10.1.0.0/16",), id="within-what-it-was"),
        pytest.param(("10.1.0.0/16",), ("10.0.0.0/8",), id="around-what-it-was"),
        pytest.param(("10.0.0.0/8",), (), id="none-left"),
    ],
)
def test_other_ranges_come_under_the_same_number(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    rig = Rig(HERE)
    before, after = guarded(*first), guarded(*second)
    rig.step([], [before])
    batch = rig.step([before], [after])
    (number,) = rig.state.sources.ranges
    assert names.FIREWALL_IPS not in batch.added
    expected = list_elements(number, allowed_sources(after))
    assert expected.keys() == rig.table.elements()[names.FIREWALL_SOURCES].keys()
    assert rig.state.placed[after.name].sources == number


def test_one_range_more_is_one_element() -> None:
    rig = Rig(HERE)
    many = [f"10.{n}.0.0/24" for n in range(200)]
    before = [guarded(*many, port=port) for port in (80, 81)]
    after = [guarded(*many, "192.0.2.0/24", port=port) for port in (80, 81)]
    rig.step([], before)
    batch = rig.step(before, after)
    assert batch.deleted == {}
    assert {name: len(elements) for name, elements in batch.added.items()} == {
        names.FIREWALL_SOURCES: 1
    }


def test_two_services_that_exchange_their_ranges() -> None:
    rig = Rig(HERE)
    web, shop = guarded("10.0.0.0/8", port=80), guarded("192.0.2.0/24", port=81)
    rig.step([], [web, shop])
    other_web, other_shop = guarded("192.0.2.0/24", port=80), guarded("10.0.0.0/8", port=81)
    rig.step([web, shop], [other_web, other_shop])
    rig.step([other_web], [guarded("10.0.0.0/8", port=80)])
    rig.step([other_shop], [guarded("10.64.0.0/10", port=81)])
    rig.step([guarded("10.64.0.0/10", port=81)], [])
    assert len(rig.table.sets[names.FIREWALL_SOURCES].elements) == 1
    assert [*rig.state.sources.numbers.values()] == [*rig.state.sources.ranges]


def test_a_list_that_another_service_still_uses_stays() -> None:
    rig = Rig(HERE)
    web, shop = guarded("10.0.0.0/8", port=80), guarded("10.0.0.0/8", port=81)
    rig.step([], [web, shop])
    rig.step([web], [guarded("10.0.0.0/9", port=80)])
    assert len(rig.table.sets[names.FIREWALL_SOURCES].elements) == 2
    rig.step([shop], [guarded("10.0.0.0/9", port=81)])
    assert len(rig.table.sets[names.FIREWALL_SOURCES].elements) == 1


def test_a_restart_finds_the_lists_under_their_numbers() -> None:
    rig = Rig(HERE)
    table = table_with(*(guarded(f"10.{n}.0.0/16", port=n) for n in range(1, 6)))
    rig.fill(table)
    gone = table.entries[NAME._replace(port="1")]
    rig.step([gone], [])
    left = table_with(*(each for each in table.entries.values() if each is not gone))
    assert rig.fill(left).count == 0
    assert set(rig.state.sources.ranges) == {2, 3, 4, 5}


def test_frontends_that_changed_hands_do_not_share_a_list_with_their_former_owner() -> None:
    rig = Rig(HERE)
    web, shop = guarded("10.0.0.0/8", port=80), guarded("10.0.0.0/8", port=81)
    rig.step([], [web, shop])
    other = guarded("192.0.2.0/24", port=81)
    rig.fill(table_with(web, other))
    sources = {each.sources for each in rig.state.placed.values()}
    assert len(sources) == 2
    assert len(rig.table.sets[names.FIREWALL_SOURCES].elements) == 2


def test_a_number_that_a_list_has_is_not_given_to_another() -> None:
    lists = SourceLists()
    first = SourceChange(lists)
    assert first.join(guarded("10.0.0.0/8"), 7) == 7
    assert first.join(guarded("10.0.0.0/9"), 7) == 1
    first.commit()
    second = SourceChange(lists)
    assert second.join(guarded("10.0.0.0/10"), 7) == 2
    assert second.join(guarded("10.0.0.0/8")) == 7


def test_without_ranges_or_such_an_address_there_is_no_list() -> None:
    change = SourceChange(SourceLists())
    assert change.join(Entry(NAME, (BALANCER,))) == 0
    at = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.20", 443)
    assert change.join(Entry(NAME, (at,), source_ranges=(prefix("10.0.0.0/8"),))) == 0


def test_a_list_has_a_limit_and_the_error_says_what_to_do() -> None:
    ranges = tuple(f"10.{n >> 7}.{n * 2 & 255}.0/24" for n in range(MOST_RANGES + 1))
    with pytest.raises(Unfit, match=r"5,001 separate ranges.* at most 5,000.* fewer, larger"):
        allowed_sources(guarded(*ranges))
    assert len(allowed_sources(guarded(*ranges[1:]))) == MOST_RANGES


def test_an_element_says_which_list_it_is_of() -> None:
    (element,) = list_elements(77, allowed_sources(guarded("10.0.0.0/8")))
    assert list_number(element) == 77


def test_ranges_that_are_too_many_are_gone_through_once_for_all_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With each sync that tries the Service again: it may have hundreds of ports."""
    asked: list[int] = []

    def counting(entry: Entry) -> Ranges:
        asked.append(1)
        return allowed_sources(entry)

    monkeypatch.setattr(sources, "allowed_sources", counting)
    first = guarded(*(f"10.{n >> 7}.{n * 2 & 255}.0/24" for n in range(MOST_RANGES + 1)))
    ports = [
        msgspec.structs.replace(first, name=NAME._replace(port=str(port))) for port in range(200)
    ]
    rig = Rig(HERE)
    _, _, left_out = write(rig.state, [], [*ports, guarded("10.0.0.0/8", port=80)], HERE)
    assert len(left_out) == 200
    assert len(asked) < 5
