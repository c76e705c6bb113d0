"""The kernel's counters are read alike in every way of reading, and whatever happens meanwhile."""

import errno
from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Count, Target
from kubeproxy.dataplane.nftables import counters, inspect
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.netlink.message import WHOLE_BATCH, Message, MessageError
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import FrontendKind
from lab.entries import exposed, served, service_ip
from lab.farm import crop
from lab.listing import KEYWORD
from lab.network import Network
from lab.plane import Plane, plane
from lab.stage import Lab
from world import Mode, node

SERVICES = 30


@pytest.fixture
def kestrel(lab: Lab, family: Family) -> Iterator[Plane]:
    """Thirty services of four frontends and three endpoints; two counters say something."""
    lab.stop()
    backends = [crop(number, family) for number in range(3)]
    entries = [
        exposed(served(number, backends, family), number, family)
        for number in range(1, SERVICES + 1)
    ]
    settings = NftablesSettings(14, endpoint_counters=True)
    with plane(lab.network.node, node(Mode.NFTABLES, family), settings) as opened:
        opened.put(entries)
        table = f"{KEYWORD[family]} kube-proxy"
        frontend = f"{service_ip(2, family)} . tcp . 80"
        second = f"{backends[1].address} . {backends[1].port}"
        place = f"{frontend} . 0:2"
        script = f"""
        delete element {table} service-connections {{ {frontend} }}
        add element {table} service-connections {{ {frontend} counter packets 7 bytes 0 }}
        delete element {table} nodeport-connections {{ tcp . 30003 }}
        add element {table} nodeport-connections {{ tcp . 30003 counter packets 9 bytes 0 }}
        delete element {table} service-endpoints {{ {place} }}
        add element {table} service-endpoints {{ {place} counter packets 5 bytes 0 : {second} }}
        """
        lab.network.node.run(["nft", "-f", "-"], stdin=script)
        yield opened


def read(opened: Plane, network: Network) -> tuple[int, dict[str, list[Count]]]:
    with network.node.entered():
        reading = opened._dataplane.connections()
        assert reading is not None
        return reading.epoch, {name.service: list(counts) for name, counts in reading.counts}


def said(found: dict[str, list[Count]]) -> dict[tuple[str, Target], int | None]:
    """What is not zero."""
    return {
        (service, count.target): count.value
        for service, counts in found.items()
        for count in counts
        if count.value != 0
    }


def expected(opened: Plane, family: Family) -> dict[tuple[str, Target], int | None]:
    entry = next(e for e in opened.table.entries.values() if e.name.service == "shop-2")
    node_port = next(
        frontend
        for e in opened.table.entries.values()
        if e.name.service == "shop-3"
        for frontend in e.frontends
        if frontend.kind is FrontendKind.NODE_PORT
    )
    return {
        ("shop-2", entry.frontends[0]): 7,
        ("shop-3", node_port): 9,
        ("shop-2", crop(1, family)): 5,
    }


@pytest.mark.parametrize("how", ["by-dump", "by-key", "by-key-after-a-dump-without-quiet"])
def test_every_way_of_reading_says_the_same(
    kestrel: Plane, network: Network, family: Family, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "by-key":
        monkeypatch.setattr(counters, "LARGE_SET", 10)
    if how == "by-key-after-a-dump-without-quiet":
        monkeypatch.setattr(Nfnetlink, "dump", _never_quiet)
    _, found = read(kestrel, network)
    assert expected(kestrel, family) == said(found)
    assert {len(counts) for counts in found.values()} == {4 + 4 * 3}


def _never_quiet(*_: object) -> list[Message]:
    raise Refused("cannot dump", MessageError(WHOLE_BATCH, errno.EINTR))


@pytest.mark.parametrize("large", [False, True], ids=["by-dump", "by-key"])
def test_a_counter_that_is_gone_is_not_zero_but_unknown(
    kestrel: Plane, network: Network, family: Family, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(counters, "LARGE_SET", 10)
        monkeypatch.setattr(inspect, "AT_ONCE", 1)
    element = f"{service_ip(5, family)} . tcp . 80"
    script = f"delete element {KEYWORD[family]} kube-proxy service-connections {{ {element} }}"
    network.node.run(["nft", script])
    _, found = read(kestrel, network)
    assert [count.value for count in found["shop-5"]][:4] == [None, 0, 0, 0]
    assert found["shop-2"][0].value == 7


def test_a_table_that_is_created_again_has_another_epoch(kestrel: Plane, network: Network) -> None:
    first, _ = read(kestrel, network)
    again, _ = read(kestrel, network)
    assert first == again
    network.node.run(["nft", "flush", "ruleset"])
    kestrel.resync()
    again, found = read(kestrel, network)
    assert again != first
    assert said(found) == {}


def test_before_the_first_sync_nothing_is_known(lab: Lab, family: Family) -> None:
    lab.stop()
    with plane(lab.network.node, node(Mode.NFTABLES, family)) as opened:
        assert opened._dataplane.connections() is None
        assert opened._dataplane.written(opened.table, []) == ""
