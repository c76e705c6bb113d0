"""Listeners, and how packets come to them."""

from collections.abc import Iterable

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.userspace import rules
from kubeproxy.dataplane.userspace.listeners import given
from kubeproxy.dataplane.userspace.render import rendered
from kubeproxy.dataplane.userspace.rules import Element, change, deletion, elements, own_address
from kubeproxy.table.entries import Entry, Table
from kubeproxy.table.node import NodeView, PodInterface
from world import Document, Mode, endpoint_slice, everywhere, node, service, table_of

NODE = node(Mode.USERSPACE)
CIP, EXT, VIP = "10.112.0.21 . tcp . 80", "198.18.0.5 . tcp . 80", "203.0.113.7 . tcp . 80"
LOCAL: Document = {"externalTrafficPolicy": "Local"}
RANGES: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25"]}


def table(svc: Document | None = None, endpoints: str = "L1 R1") -> Table:
    return table_of(svc or everywhere(), endpoint_slice(endpoints))


def of(found: Table, here: NodeView = NODE) -> frozenset[Element]:
    (entry,) = found.entries.values()
    return elements(entry, here, lambda _: 4711)


def keys(found: Iterable[Element]) -> dict[str, set[str]]:
    by_set: dict[str, set[str]] = {}
    for each in found:
        by_set.setdefault(each.set, set()).add(each.key)
    return by_set


def test_every_frontend_has_a_listener() -> None:
    assert keys(of(table())) == {
        "services": {CIP, EXT, VIP},
        "node-ports": {"tcp . 31080"},
        "listening": {"tcp . 4711"},
    }
    assert Element("services", CIP, "198.51.100.10 . 4711") in of(table())


def test_without_endpoints_it_is_refused() -> None:
    found = of(table(endpoints=""))
    assert keys(found) == {
        "services-refused": {CIP, EXT, VIP},
        "node-ports-refused": {"tcp . 31080"},
    }
    assert {each.data for each in found} == {"goto refuse"}


def test_the_node_and_its_pods_get_others_than_clients_outside() -> None:
    found = keys(of(table(everywhere(LOCAL))))
    assert found["services-inside"] == {EXT, VIP}
    assert found["node-ports-inside"] == {"tcp . 31080"}
    elsewhere = of(table(everywhere(LOCAL), "R1"))
    assert keys(elsewhere)["services-inside"] == {EXT, VIP}
    refused = {each.data for each in elsewhere if each.set == "services-refused"}
    assert refused == {"drop"}


def test_source_ranges() -> None:
    found = keys(of(table(everywhere(RANGES))))
    assert found["firewalled"] == {VIP}
    assert found["allowed"] == {f"{VIP} . 192.0.2.0/25"}
    (entry,) = table(everywhere(RANGES)).entries.values()
    own = elements(msgspec.structs.replace(entry, own_vips=True), NODE, lambda _: 1)
    assert f"{VIP} . 203.0.113.7" in keys(own)["allowed"]


def test_node_ports_only_where_they_are_served() -> None:
    closed = msgspec.structs.replace(NODE, node_port_ranges=())
    assert "node-ports" not in keys(of(table(), closed))


def test_sctp_has_no_listener() -> None:
    ports = [{"name": "http", "protocol": "SCTP", "port": 80}]
    found = table(service({"ports": ports}))
    (entry,) = found.entries.values()
    assert entry.protocol is Protocol.SCTP
    assert list(given(entry, NODE)) == []


def test_the_text_of_a_change() -> None:
    gone = {Element("services", CIP, "a"), Element("listening", "tcp . 1")}
    come = {Element("services", VIP, "198.51.100.10 . 2")}
    assert change(Family.IPV4, gone, come) == (
        "delete element ip kube-proxy-userspace listening { tcp . 1 }\n"
        f"delete element ip kube-proxy-userspace services {{ {CIP} }}\n"
        f"add element ip kube-proxy-userspace services {{ {VIP} : 198.51.100.10 . 2 }}\n"
    )
    assert deletion(Family.IPV6) == (
        "table ip6 kube-proxy-userspace\ndelete table ip6 kube-proxy-userspace\n"
    )


def test_the_whole_table() -> None:
    text = rendered(table(), NODE)
    assert text.startswith("# Each listener has a port that is free")
    assert "set addresses { type ipv4_addr; elements = { " in text
    assert f"{CIP} : 198.51.100.10 . 0" in text
    nowhere = msgspec.structs.replace(NODE, node_port_ranges=())
    assert "set addresses { type ipv4_addr; }" in rendered(table(), nowhere)


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        (PodInterface("cbr0"), 'iifname "cbr0" jump inside'),
        (PodInterface("veth", prefix=True), 'iifname "veth*" jump inside'),
    ],
)
def test_pods_known_by_their_interface(detector: PodInterface, expected: str) -> None:
    here = msgspec.structs.replace(NODE, detector=detector)
    assert expected in rules.whole_table(here, ())
    assert "jump inside" in rules.whole_table(msgspec.structs.replace(NODE, detector=None), ())


def test_where_packets_are_led() -> None:
    assert own_address(NODE) == "198.51.100.10"
    unnamed = msgspec.structs.replace(NODE, ip="")
    assert own_address(unnamed) == "198.51.100.10"
    assert own_address(msgspec.structs.replace(unnamed, addresses=())) == "127.0.0.1"


def test_entries_are_what_they_were() -> None:
    (entry,) = table().entries.values()
    assert isinstance(entry, Entry)
    assert len(list(given(entry, NODE))) == 4
