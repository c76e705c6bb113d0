"""The worked cases of the semantics, by their numbers, against decide().

Cases 59 (a port that only a filter accepts), 72 to 75 (affinity and conntrack over time) and 76
and 77 (when a sync happens) are not about one packet; they are tested where they belong.
"""

import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.table.decide import decide
from kubeproxy.table.node import PodCIDR, PodInterface
from world import (
    NODE_PORT,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    node,
    packet,
    prefix,
    service,
    shorthand,
    table_of,
)

NFT, IPT, IPVS = Mode.NFTABLES, Mode.IPTABLES, Mode.IPVS
ALL = (NFT, IPT, IPVS)
BOTH = (NFT, IPT)

CLUSTER_LOCAL: Document = {"internalTrafficPolicy": "Local"}
EXTERNAL_LOCAL: Document = {"externalTrafficPolicy": "Local"}
RANGES: Document = {"loadBalancerSourceRanges": ["198.51.100.0/24", " 192.0.2.0/25"]}
NARROW: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25"]}
DNS: Document = {
    "ports": [
        {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "sctp", "port": 53, "protocol": "SCTP"},
    ]
}
DNS_SLICE: Document = {
    "ports": [
        {"name": "tcp", "port": 5353, "protocol": "TCP"},
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "sctp", "port": 53, "protocol": "SCTP"},
    ]
}
NODE_PORT_ONLY: Document = {
    "type": "NodePort",
    "ports": [{"name": "http", "port": 80, "nodePort": NODE_PORT}],
}
UDP_NODE_PORT: Document = {
    "ports": [{"name": "http", "port": 80, "nodePort": NODE_PORT, "protocol": "UDP"}]
}

# number, modes, Service, endpoints, packet, verdict
CASES: list[tuple[str, tuple[Mode, ...], Document, str, str, str]] = [
    ("1", ALL, service(), "L1", "P CIP:80", "L1"),
    ("2", ALL, service(), "L1", "L1 CIP:80", "L1 masq"),
    ("3", ALL, service(), "L1 R1", "P CIP:80", "L1 R1"),
    ("6", (NFT, IPVS), service(), "L1", "P CIP:80/UDP", "reject"),
    ("6", (IPT,), service(), "L1", "P CIP:80/UDP", "pass"),
    ("7", (NFT, IPVS), service(), "L1", "P CIP:443", "reject"),
    ("7", (IPT,), service(), "L1", "P CIP:443", "pass"),
    ("7-icmp", (NFT, IPVS), service(), "L1", "P CIP:0/ICMP", "reject"),
    ("7-icmp", (IPT,), service(), "L1", "P CIP:0/ICMP", "pass"),
    ("8", (NFT,), service(), "L1", "P 10.112.0.77:80", "drop"),
    ("8", (IPT, IPVS), service(), "L1", "P 10.112.0.77:80", "pass"),
    ("9", ALL, service(), "L1 R1", "H CIP:80", "L1 R1 masq"),
    ("9", ALL, service(), "L1 R1", "X CIP:80", "L1 R1 masq"),
    ("13", ALL, service(), "", "P CIP:80", "reject"),
    ("15", ALL, everywhere(), "", "P NP", "reject"),
    ("15", ALL, everywhere(), "", "X NP", "reject"),
    ("15", ALL, everywhere(), "", "P VIP:80", "reject"),
    ("15", ALL, everywhere(), "", "X VIP:80", "reject"),
    ("16", (NFT, IPVS), everywhere(), "", "H VIP:80", "reject"),
    ("16", (IPT,), everywhere(), "", "H VIP:80", "pass"),
    ("17", ALL, service(CLUSTER_LOCAL), "L1 R1 R2", "P CIP:80", "L1"),
    ("18", ALL, service(CLUSTER_LOCAL), "L1 L2 R1", "P CIP:80", "L1 L2"),
    ("19", BOTH, service(CLUSTER_LOCAL), "R1 R2", "P CIP:80", "drop"),
    ("19", (IPVS,), service(CLUSTER_LOCAL), "R1 R2", "P CIP:80", "reject"),
    ("20", ALL, service(CLUSTER_LOCAL), "", "P CIP:80", "reject"),
    ("21", BOTH, service({**NODE_PORT_ONLY, **CLUSTER_LOCAL}), "R1", "P CIP:80", "drop"),
    ("21", (IPVS,), service({**NODE_PORT_ONLY, **CLUSTER_LOCAL}), "R1", "P CIP:80", "R1"),
    ("22", ALL, service(CLUSTER_LOCAL), "L1 R1", "H CIP:80", "L1 masq"),
    ("22", ALL, service(CLUSTER_LOCAL), "L1 R1", "X CIP:80", "L1 masq"),
    ("23", ALL, everywhere(CLUSTER_LOCAL), "L1 R1", "P NP", "L1 R1 masq"),
    ("23", ALL, everywhere(CLUSTER_LOCAL), "L1 R1", "H VIP:80", "L1 R1 masq"),
    ("23", ALL, everywhere(CLUSTER_LOCAL), "L1 R1", "X VIP:80", "L1 R1 masq"),
    ("24", ALL, everywhere(), "L1 R1", "P EXT:80", "L1 R1 masq"),
    ("24", ALL, everywhere(), "L1 R1", "X EXT:80", "L1 R1 masq"),
    ("24", ALL, everywhere(), "L1 R1", "P VIP:80", "L1 R1 masq"),
    ("24", ALL, everywhere(), "L1 R1", "H VIP:80", "L1 R1 masq"),
    ("24", ALL, everywhere(), "L1 R1", "X NP", "L1 R1 masq"),
    ("25", ALL, everywhere(EXTERNAL_LOCAL), "L1 R1", "X EXT:80", "L1"),
    ("25", ALL, everywhere(EXTERNAL_LOCAL), "L1 R1", "X VIP:80", "L1"),
    ("25", ALL, everywhere(EXTERNAL_LOCAL), "L1 R1", "X NP", "L1"),
    ("26", BOTH, everywhere(EXTERNAL_LOCAL), "L1 R1", "P EXT:80", "L1 R1"),
    ("26", BOTH, everywhere(EXTERNAL_LOCAL), "L1 R1", "P VIP:80", "L1 R1"),
    ("26", BOTH, everywhere(EXTERNAL_LOCAL), "L1 R1", "P NP", "L1 R1"),
    ("26", (IPVS,), everywhere(EXTERNAL_LOCAL), "L1 R1", "P VIP:80", "L1"),
    ("27", BOTH, everywhere(EXTERNAL_LOCAL), "L1 R1", "H VIP:80", "L1 R1 masq"),
    ("27", (IPVS,), everywhere(EXTERNAL_LOCAL), "L1 R1", "H VIP:80", "L1"),
    ("28", ALL, everywhere(EXTERNAL_LOCAL), "L1 R1", "P CIP:80", "L1 R1"),
    ("28", ALL, everywhere(EXTERNAL_LOCAL), "L1 R1", "X CIP:80", "L1 R1 masq"),
    ("29", BOTH, everywhere(EXTERNAL_LOCAL), "R1", "X VIP:80", "drop"),
    ("29", BOTH, everywhere(EXTERNAL_LOCAL), "R1", "X NP", "drop"),
    ("29", (IPVS,), everywhere(EXTERNAL_LOCAL), "R1", "X VIP:80", "R1"),
    ("30", BOTH, everywhere(EXTERNAL_LOCAL), "R1", "P VIP:80", "R1"),
    ("30", BOTH, everywhere(EXTERNAL_LOCAL), "R1", "H VIP:80", "R1 masq"),
    (
        "34",
        ALL,
        everywhere(EXTERNAL_LOCAL),
        "L1 L2 R1 L3:draining L4:stopped",
        "P CIP:80",
        "L1 L2 R1",
    ),
    (
        "34",
        ALL,
        everywhere(EXTERNAL_LOCAL),
        "L1 L2 R1 L3:draining L4:stopped",
        "X VIP:80",
        "L1 L2",
    ),
    (
        "35",
        ALL,
        everywhere(EXTERNAL_LOCAL),
        "L1:draining L2:draining L4:stopped R1",
        "P CIP:80",
        "R1",
    ),
    (
        "35",
        ALL,
        everywhere(EXTERNAL_LOCAL),
        "L1:draining L2:draining L4:stopped R1",
        "X VIP:80",
        "L1 L2",
    ),
    ("36", ALL, everywhere(EXTERNAL_LOCAL), "R1:draining", "P CIP:80", "R1"),
    ("36", BOTH, everywhere(EXTERNAL_LOCAL), "R1:draining", "X VIP:80", "drop"),
    ("37", ALL, everywhere(EXTERNAL_LOCAL), "L4:stopped R2:stopped", "P CIP:80", "reject"),
    ("37", ALL, everywhere(EXTERNAL_LOCAL), "L4:stopped R2:stopped", "X VIP:80", "reject"),
    ("38", ALL, everywhere(), "L1 L2 R1 R2:draining", "X VIP:80", "L1 L2 R1 masq"),
    (
        "39",
        ALL,
        everywhere(),
        "L1:draining L2:draining R1:draining R2:stopped",
        "P CIP:80",
        "L1 L2 R1",
    ),
    (
        "39",
        ALL,
        everywhere(),
        "L1:draining L2:draining R1:draining R2:stopped",
        "X VIP:80",
        "L1 L2 R1 masq",
    ),
    ("40", ALL, everywhere(RANGES), "L1", "X VIP:80", "L1 masq"),
    ("41", ALL, everywhere(RANGES), "L1", "Y VIP:80", "drop"),
    ("42", ALL, everywhere(RANGES), "L1", "P VIP:80", "drop"),
    ("43", ALL, everywhere(RANGES), "L1", "H VIP:80", "L1 masq"),
    ("44", ALL, everywhere(RANGES), "L1", "VIP VIP:80", "L1 masq"),
    ("45", ALL, everywhere(RANGES), "L1", "Y NP", "L1 masq"),
    ("46", BOTH, everywhere(NARROW), "L1", "H VIP:80", "drop"),
    # An ipvs node uses the VIP as its own address unless a program chooses another one.
    ("46", (IPVS,), everywhere(NARROW), "L1", "H VIP:80", "L1 masq"),
    ("46", ALL, everywhere(NARROW), "L1", "VIP VIP:80", "drop"),
    (
        "47",
        ALL,
        everywhere({"loadBalancerSourceRanges": ["192.0.2.0/25", "0.0.0.0/0"]}),
        "L1",
        "Y VIP:80",
        "L1 masq",
    ),
    # Upstream forwards here (Q): the list closed the service, so it stays closed. differences.md
    (
        "48",
        ALL,
        everywhere({"loadBalancerSourceRanges": ["2001:db8:bb::/48"]}),
        "L1",
        "Y VIP:80",
        "drop",
    ),
    ("49", (NFT,), everywhere(NARROW), "", "Y VIP:80", "drop"),
    ("49", (IPT,), everywhere(NARROW), "", "Y VIP:80", "reject"),
    ("49", BOTH, everywhere(NARROW), "", "X VIP:80", "reject"),
    (
        "50",
        BOTH,
        service(vips=[{"ip": "203.0.113.7", "ipMode": "VIP"}]),
        "L1",
        "X VIP:80",
        "L1 masq",
    ),
    (
        "50",
        ALL,
        service(vips=[{"ip": "203.0.113.7", "ipMode": "Proxy"}]),
        "L1",
        "X VIP:80",
        "pass",
    ),
    ("51", (NFT,), everywhere(), "L1 R1", "X 198.51.100.77:31080", "pass"),
    ("51", (IPT, IPVS), everywhere(), "L1 R1", "X 198.51.100.77:31080", "L1 R1 masq"),
    ("54", (IPT,), everywhere(), "L1 R1", "127.0.0.1 127.0.0.1:31080", "L1 R1 masq"),
    (
        "54",
        (IPT,),
        everywhere(EXTERNAL_LOCAL),
        "L1 R1",
        "127.0.0.1 127.0.0.1:31080",
        "L1 R1 masq",
    ),
    ("54", (NFT, IPVS), everywhere(), "L1 R1", "127.0.0.1 127.0.0.1:31080", "pass"),
    ("60", ALL, service(), "L1@z-east R1@z-west R2@z-east", "P CIP:80", "L1 R2"),
    ("61", ALL, service(), "L1@z-east R1", "P CIP:80", "L1 R1"),
    ("62", ALL, service(), "R1@z-west R2@z-north", "P CIP:80", "R1 R2"),
    ("63", ALL, service(), "L1:unready@z-east R1@z-west", "P CIP:80", "R1"),
    ("64", ALL, service(), "L1@z-east%kestrel R1@z-east%heron", "P CIP:80", "L1"),
    ("65", ALL, service(), "R1@z-east%heron R2@z-west%merlin", "P CIP:80", "R1"),
    (
        "66",
        ALL,
        everywhere(EXTERNAL_LOCAL),
        "L1@z-east L2@z-west R1@z-east",
        "X VIP:80",
        "L1 L2",
    ),
    (
        "66",
        BOTH,
        everywhere(EXTERNAL_LOCAL),
        "L1@z-east L2@z-west R1@z-east",
        "P VIP:80",
        "L1 R1",
    ),
    ("71", (NFT,), service({"type": "ExternalName"}), "L1", "P CIP:80", "drop"),
    ("71", (IPT, IPVS), service({"type": "ExternalName"}), "L1", "P CIP:80", "pass"),
]


@pytest.mark.parametrize(
    ("mode", "svc", "endpoints", "sent", "expected"),
    [
        pytest.param(mode, svc, eps, sent, expected, id=f"{number}-{mode.value}-{sent}")
        for number, modes, svc, eps, sent, expected in CASES
        for mode in modes
    ],
)
def test_worked_case(mode: Mode, svc: Document, endpoints: str, sent: str, expected: str) -> None:
    table = table_of(svc, endpoint_slice(endpoints))
    assert expected == shorthand(decide(packet(sent), table, node(mode), mode.quirks))


@pytest.mark.parametrize("mode", ALL)
def test_4_the_port_comes_from_the_slice(mode: Mode) -> None:
    svc = service({"ports": [{"name": "https", "port": 443}]})
    ports = {"ports": [{"name": "https", "port": 8443, "protocol": "TCP"}]}
    table = table_of(svc, endpoint_slice("L1 R1", ports))
    verdict = decide(packet("P CIP:443"), table, node(mode), mode.quirks)
    assert shorthand(verdict) == "L1:8443 R1:8443"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("P CIP:53", "L1:5353"), ("P CIP:53/UDP", "L1:53"), ("P CIP:53/SCTP", "L1:53")],
)
def test_5_protocols_of_one_port_are_apart(sent: str, expected: str) -> None:
    table = table_of(service(DNS), endpoint_slice("L1", DNS_SLICE))
    assert expected == shorthand(decide(packet(sent), table, node(NFT), NFT.quirks))


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    ("number", "svc", "sent", "expected"),
    [
        ("10", service(), "H CIP:80", "L1 R1"),
        ("10", service(), "X CIP:80", "L1 R1"),
        ("31", everywhere(EXTERNAL_LOCAL), "P VIP:80", "L1"),
        ("31", everywhere(EXTERNAL_LOCAL), "P NP", "L1"),
    ],
)
def test_without_a_detector(
    mode: Mode, number: str, svc: Document, sent: str, expected: str
) -> None:
    here = msgspec.structs.replace(node(mode), detector=None)
    table = table_of(svc, endpoint_slice("L1 R1"))
    assert expected == shorthand(decide(packet(sent), table, here, mode.quirks)), number


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    ("number", "svc", "sent", "expected"),
    [
        ("11", service(), "P CIP:80", "L1 R1 masq"),
        ("33", everywhere(EXTERNAL_LOCAL), "X VIP:80", "L1"),
    ],
)
def test_with_masquerade_all(
    mode: Mode, number: str, svc: Document, sent: str, expected: str
) -> None:
    here = msgspec.structs.replace(node(mode), masquerade_all=True)
    table = table_of(svc, endpoint_slice("L1 R1"))
    assert expected == shorthand(decide(packet(sent), table, here, mode.quirks)), number


@pytest.mark.parametrize("mode", ALL)
def test_12_pods_of_other_nodes_are_outside_of_a_node_cidr(mode: Mode) -> None:
    here = msgspec.structs.replace(node(mode), detector=PodCIDR(prefix("10.64.3.0/24")))
    table = table_of(service(), endpoint_slice("L1 R1"))
    verdict = decide(packet("10.65.7.99 CIP:80"), table, here, mode.quirks)
    assert shorthand(verdict) == "L1 R1 masq"


@pytest.mark.parametrize("mode", BOTH)
def test_14_an_external_ip_that_is_a_node_address_is_rejected_too(mode: Mode) -> None:
    here = msgspec.structs.replace(node(mode), addresses=("198.18.0.5",))
    table = table_of(everywhere())
    assert shorthand(decide(packet("X EXT:80"), table, here, mode.quirks)) == "reject"


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("exact", [True, False])
def test_32_an_interface_detector_knows_the_pods_of_other_nodes(mode: Mode, exact: bool) -> None:
    detector = PodInterface("cni0") if exact else PodInterface("cni", prefix=True)
    here = msgspec.structs.replace(node(mode), detector=detector)
    table = table_of(everywhere(EXTERNAL_LOCAL), endpoint_slice("L1 R1"))
    outside = decide(packet("10.65.7.99,eth0 NP"), table, here, mode.quirks)
    assert shorthand(outside) == "L1"
    pod = decide(packet("P,cni0 NP"), table, here, mode.quirks)
    assert shorthand(pod) == "L1 R1"


@pytest.mark.parametrize("mode", ALL)
def test_52_node_port_ranges_accept_the_other_address(mode: Mode) -> None:
    here = msgspec.structs.replace(node(mode), node_port_ranges=(prefix("198.51.100.0/24"),))
    table = table_of(everywhere(), endpoint_slice("L1 R1"))
    verdict = decide(packet("X 198.51.100.77:31080"), table, here, mode.quirks)
    assert shorthand(verdict) == "L1 R1 masq"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param("2001:db8:ff::9 [2001:db8:aa::10]:31080", "fd40::11 masq", id="53-accepted"),
        pytest.param("2001:db8:ff::9 [2001:db8:aa::77]:31080", "pass", id="53-not-accepted"),
        pytest.param("::1 [::1]:31080", "pass", id="55-loopback"),
    ],
)
@pytest.mark.parametrize("mode", ALL)
def test_ipv6_node_ports(mode: Mode, sent: str, expected: str) -> None:
    svc = service({**NODE_PORT_ONLY, "clusterIP": "fd12::1"})
    table = table_of(
        svc,
        endpoint_slice(spec={"addressType": "IPv6", "endpoints": [{"addresses": ["fd40::11"]}]}),
        family=Family.IPV6,
    )
    here = msgspec.structs.replace(
        node(mode, Family.IPV6), node_port_ranges=(prefix("2001:db8:aa::10/128"),)
    )
    assert expected == shorthand(decide(packet(sent), table, here, mode.quirks))


@pytest.mark.parametrize(
    ("gate_ranges", "svc", "sent", "expected"),
    [
        pytest.param(
            ("198.51.100.10/32", "127.0.0.0/8"),
            everywhere(EXTERNAL_LOCAL),
            "127.0.0.1 127.0.0.1:31080",
            "proxy L1",
            id="56-tcp-is-proxied",
        ),
        pytest.param(
            ("198.51.100.10/32", "127.0.0.0/8"),
            everywhere(UDP_NODE_PORT),
            "127.0.0.1 127.0.0.1:31080/UDP",
            "reject",
            id="57-udp-is-rejected",
        ),
        pytest.param(
            ("198.51.100.10/32",),
            everywhere(),
            "127.0.0.1 127.0.0.1:31080",
            "reject",
            id="58-loopback-not-listed",
        ),
        pytest.param(
            ("127.0.0.0/8",),
            everywhere(),
            "127.0.0.1 127.0.0.2:31080",
            "pass",
            id="listener-is-on-one-address-only",
        ),
        pytest.param(
            ("0.0.0.0/0",),
            everywhere(),
            "127.0.0.1 127.0.0.1:31080",
            "reject",
            id="match-all-does-not-list-loopback",
        ),
    ],
)
def test_localhost_node_ports_of_nftables(
    gate_ranges: tuple[str, ...], svc: Document, sent: str, expected: str
) -> None:
    here = msgspec.structs.replace(
        node(NFT), localhost_gate=True, node_port_ranges=tuple(map(prefix, gate_ranges))
    )
    ports = {"ports": [{"name": "http", "port": 8080, "protocol": p} for p in ("TCP", "UDP")]}
    table = table_of(svc, endpoint_slice("L1 R1", ports))
    assert expected == shorthand(decide(packet(sent), table, here, NFT.quirks))


def test_55_without_localhost_node_ports_the_loopback_is_left_alone() -> None:
    here = msgspec.structs.replace(node(IPT), localhost_node_ports=False)
    table = table_of(everywhere(), endpoint_slice("L1 R1"))
    verdict = decide(packet("127.0.0.1 127.0.0.1:31080"), table, here, IPT.quirks)
    assert shorthand(verdict) == "pass"


def test_67_a_copy_that_is_ready_beats_one_that_terminates() -> None:
    first = endpoint_slice("L1:draining")
    second = endpoint_slice("L1", name="cart-0")
    table = table_of(service(), first, second)
    assert shorthand(decide(packet("P CIP:80"), table, node(NFT), NFT.quirks)) == "L1"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"ports": [{"name": "http", "port": None}]}, id="68-nil-port"),
        pytest.param({"ports": None}, id="null-ports"),
        pytest.param({"ports": [{"name": None, "port": 80}]}, id="nil-name"),
        pytest.param({"addressType": "IPv6"}, id="69-other-family"),
        pytest.param({"addressType": "FQDN"}, id="fqdn"),
        pytest.param({"endpoints": None}, id="null-endpoints"),
        pytest.param({"endpoints": [{"addresses": None}]}, id="no-address"),
    ],
)
def test_slices_that_contribute_nothing(spec: Document) -> None:
    table = table_of(service(), endpoint_slice("L1", spec))
    assert shorthand(decide(packet("P CIP:80"), table, node(NFT), NFT.quirks)) == "reject"


@pytest.mark.parametrize(("mode", "expected"), [(IPT, "R1 masq"), (NFT, "R1"), (IPVS, "R1")])
def test_70_only_iptables_sees_the_hairpin_of_an_endpoint_without_node(
    mode: Mode, expected: str
) -> None:
    nameless = endpoint_slice("R1")
    nameless["endpoints"] = [{"addresses": ["10.65.7.21"]}]
    table = table_of(service(), nameless)
    assert expected == shorthand(decide(packet("R1 CIP:80"), table, node(mode), mode.quirks))
