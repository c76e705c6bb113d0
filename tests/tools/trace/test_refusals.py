"""What the rules refuse and drop: whose packets, what is asked, and how it is shown."""

import json
import struct
from collections import Counter
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.explain.words import Explanation
from kubeproxy.linux.netlink import nfnetlink as nf
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, u32
from kubeproxy.linux.netlink.message import Message, decode
from kubeproxy.linux.netlink.packets import (
    NFULA_IFINDEX_INDEV,
    NFULA_PAYLOAD,
    NFULNL_MSG_PACKET,
    Packet,
    packet_in,
)
from kubeproxy.serve.status.wire import PortDetail
from kubeproxy.tools.layout import Display
from kubeproxy.tools.trace import table
from kubeproxy.tools.trace.connections import (
    Bounds,
    Filter,
    Refusal,
    Shown,
    Trace,
    Watched,
    parse_filter,
    watched_address,
)
from kubeproxy.tools.trace.lines import Columns, json_line
from kubeproxy.tools.trace.refusals import Repeats, place_of_packet, question, refusal, summary
from tools.trace.shop import DNS, FRONTENDS, HTTP, HTTP_IPV6, KNOWN, WATCHED, endpoint

AT = datetime(2026, 3, 1, 11, 4, 5, 678901, tzinfo=UTC)


def end(address: str, port: int) -> bytes:
    return pack(address) + port.to_bytes(2, "big")


def packet(
    to: str = "10.112.0.21", port: int = 80, protocol: int = 6, interface: int = 3
) -> Packet:
    return Packet(protocol, end("10.64.3.50", 40000), end(to, port), interface)


# --- notifications ----------------------------------------------------------------------------

PORTS = struct.pack("!HH", 40000, 80)
IPV4 = bytes([0x45, *bytes(8), 6, 0, 0]) + pack("10.64.3.50") + pack("10.112.0.21")
IPV6 = bytes([0x60, *bytes(5), 17, 64]) + pack("fd40::50") + pack("fd12::21")


def notification(data: bytes, kind: int = NFULNL_MSG_PACKET) -> Message:
    parts = attribute(NFULA_PAYLOAD, data) + u32(NFULA_IFINDEX_INDEV, 3)
    return Message(kind, 0, 0, nf.NFGENMSG.pack(2, 0, 20256) + parts)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (notification(IPV4 + PORTS), packet()),
        (notification(b"\x46" + IPV4[1:] + bytes(4) + PORTS + b"more"), packet()),
        (
            notification(IPV6 + PORTS),
            Packet(17, end("fd40::50", 40000), end("fd12::21", 80), 3),
        ),
        (notification(IPV4 + PORTS, nft.NFT_MSG_NEWGEN), None),
        (notification(b""), None),
        (notification(b"\x10" + bytes(60)), None),
        (notification(IPV4 + PORTS[:2]), None),
        (notification(IPV4[:9] + b"\x01" + IPV4[10:] + PORTS), None),
    ],
    ids=[
        *("ipv4", "options", "ipv6", "no-packet", "nothing", "no-ip", "cut", "icmp"),
    ],
)
def test_the_packet_of_a_notification(message: Message, expected: Packet | None) -> None:
    assert packet_in(message) == expected


# --- the table --------------------------------------------------------------------------------

NONE: frozenset[bytes] = frozenset()
REMOTE, LOCAL = endpoint("10.65.7.21", "heron"), endpoint("10.64.3.11", "kestrel")


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (HTTP, False),
        (DNS, True),
        (replace(HTTP, endpoints=(endpoint("10.64.3.11", "kestrel", used=False),)), True),
        (replace(HTTP, source_ranges=("192.0.2.0/24",)), True),
        (replace(HTTP, endpoints=(REMOTE,), external_traffic_policy="Local"), True),
        (replace(HTTP, endpoints=(REMOTE,), internal_traffic_policy="Local"), True),
        (replace(HTTP, endpoints=(REMOTE, LOCAL), external_traffic_policy="Local"), False),
    ],
)
def test_which_may_refuse(port: PortDetail, expected: bool) -> None:
    assert table.may_refuse(port) is expected


def test_the_frontends_that_may_refuse() -> None:
    refusing = replace(HTTP, source_ranges=(), frontends=(FRONTENDS[0], FRONTENDS[3]))
    watched = [
        Watched("shop/web:http", refusing),
        Watched("shop/web:http", HTTP_IPV6),
        Watched("shop/far", replace(HTTP_IPV6, endpoints=())),
        Watched("shop/dns", replace(HTTP, frontends=(FRONTENDS[1],))),
        watched_address("10.112.0.99", 80, Protocol.TCP),
    ]
    tcp = bytes([Protocol.TCP, 0, 0, 0])
    assert table.frontends(watched, Family.IPV4) == {
        table.FRONTENDS: {pack("10.112.0.21") + tcp + bytes([0, 80, 0, 0])},
        table.NODE_PORTS: {tcp + (31080).to_bytes(2, "big") + bytes(2)},
    }


def test_the_table_belongs_to_its_socket() -> None:
    program = table.program(Family.IPV4, "kube-proxy-trace-1", 20256)
    new, *rest = [each for message in table.begun(program) for each in decode(message)]
    flags = nf.attributes_in(new)[nft.NFTA_TABLE_FLAGS]
    assert int.from_bytes(flags, "big") == nft.NFT_TABLE_F_OWNER
    kinds = Counter(each.type for each in rest)
    assert kinds == {nft.NFT_MSG_NEWSET: 2, nft.NFT_MSG_NEWCHAIN: 2, nft.NFT_MSG_NEWRULE: 4}


def test_only_what_changes_is_sent() -> None:
    program = table.program(Family.IPV6, "kube-proxy-trace-1", 20256)
    before = {table.NODE_PORTS: frozenset({b"a" * 8, b"b" * 8})}
    after = {
        table.NODE_PORTS: frozenset({b"b" * 8, b"c" * 8}),
        table.FRONTENDS: frozenset[bytes](),
    }
    sent = [each for message in table.changed(program, before, after) for each in decode(message)]
    assert [each.type for each in sent] == [nft.NFT_MSG_DELSETELEM, nft.NFT_MSG_NEWSETELEM]
    assert [(b"a" * 8 in each.payload, b"c" * 8 in each.payload) for each in sent] == [
        (True, False),
        (False, True),
    ]
    assert not any(b"b" * 8 in each.payload for each in sent)
    assert table.changed(program, after, after) == []


# --- packets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "wanted", "expected"),
    [
        (packet(), Filter(), "cluster-ip"),
        (packet(port=81), Filter(), ""),
        (packet("198.51.100.10", 31080), Filter(), "node-port"),
        (packet("198.51.100.11", 31080), Filter(), ""),
        (packet(), parse_filter(["192.0.2.0/24"], []), ""),
        (packet(), parse_filter(["10.64.3.0/24"], []), "cluster-ip"),
        (packet(), parse_filter([], ["10.64.3.11"]), ""),
    ],
)
def test_which_are_wanted(sent: Packet, wanted: Filter, expected: str) -> None:
    place = place_of_packet(KNOWN, wanted, sent)
    assert (place[1].kind if place else "") == expected


def test_what_the_proxy_is_asked() -> None:
    asked = {"from": "10.64.3.50", "to": "10.112.0.21:80/TCP", "interface": "eth0"}
    assert question(packet(), "eth0") == asked


def test_packets_between_the_same_ends_are_repeats_for_a_minute() -> None:
    repeats = Repeats()
    found = [repeats.is_new(packet(), now) for now in (1, 2, 62, 122.5)]
    assert found == [True, False, False, True]
    assert all(repeats.is_new(packet(port=port), 123) for port in range(1000, 11_000))
    assert repeats.is_new(packet(), 124)


# --- what is shown ----------------------------------------------------------------------------

WHY = "the service has no endpoint that can serve"
EXPLAINED = Explanation(
    *("kestrel", "nftables", "10.64.3.50", "pod", "10.112.0.21:80/TCP", "a pod"),
    verdict="reject",
    summary=f"rejected with ICMP port unreachable: {WHY}",
    reason="no-endpoints",
)


def refused() -> Refusal:
    found = refusal((WATCHED[0], FRONTENDS[0]), packet(), EXPLAINED)
    assert found is not None
    return found


def test_what_is_forwarded_is_no_refusal() -> None:
    forwarded = replace(EXPLAINED, verdict="forward")
    assert refusal((WATCHED[0], FRONTENDS[0]), packet(), forwarded) is None


def test_a_line_for_people() -> None:
    columns = Columns({"shop/web:http"}, Display(colours=True))
    columns.header()
    (line,) = columns.lines(refused(), AT)
    assert line.startswith("\x1b[31m11:04:05.678  TCP    10.64.3.50:40000       cluster-ip ")
    assert line.endswith(
        f"refused                -          -                         {WHY}\x1b[0m"
    )


def test_a_line_for_programs() -> None:
    found = json.loads(json_line(refused(), AT))
    assert found["time"] == "2026-03-01T11:04:05.678Z"
    assert (found["servicePort"], found["endpoint"]) == ("shop/web:http", "")
    assert (found["outcome"], found["reason"], found["why"]) == ("reject", "no-endpoints", WHY)


def test_they_share_the_rate_and_the_count() -> None:
    shown: list[Shown] = []
    trace = Trace(KNOWN, Bounds(rate=1, count=1), shown.append)
    trace.take_refused(refused())
    trace.take_refused(refused())
    trace.hold_back()
    assert trace.is_complete
    assert (len(shown), trace.begin_second()) == (1, 2)
    assert list(summary(trace.refusals, trace.refusals_shown)) == [
        "2 connections refused or dropped, 1 shown",
        f"  shop/web:http  2  refused: {WHY}",
    ]


def test_a_summary_of_none_and_of_many() -> None:
    assert list(summary(Counter(), 0)) == []
    many = Counter({(f"shop/{number}", "dropped", WHY): 1 for number in range(22)})
    assert list(summary(many, 5))[-1] == "  and 2 more"
