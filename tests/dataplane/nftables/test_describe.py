import pytest

from dataplane.nftables.programming import SETTINGS
from kubeproxy.base.inet import Family, pack
from kubeproxy.dataplane.nftables.chainnumbers import fresh_numbers
from kubeproxy.dataplane.nftables.describe import (
    describe,
    describe_some,
    element_text,
    range_text,
    value_text,
)
from kubeproxy.dataplane.nftables.elements import head, tail, verdict_tail
from kubeproxy.dataplane.nftables.language import (
    CLASSID,
    DPORT,
    DROP,
    HEADERS,
    INET_PROTO,
    INET_SERVICE,
    INTEGER,
    IPV4_ADDR,
    IPV6_ADDR,
    L4PROTO,
    PRIORITY,
    Datatype,
    Set,
    goto,
)
from kubeproxy.dataplane.nftables.placed import choices
from kubeproxy.dataplane.nftables.places import place
from kubeproxy.dataplane.nftables.program import program
from world import VIP, Document, Mode, endpoint_slice, everywhere, node, service, table_of

V4 = HEADERS[Family.IPV4]
FRONTEND = bytes([10, 112, 0, 21, 6, 0, 0, 0, 0, 80, 0, 0])


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (IPV4_ADDR, "0a700015", "10.112.0.21"),
        (IPV6_ADDR, "fd400000000000000000000000000011", "fd40::11"),
        (INET_PROTO, "84000000", "sctp"),
        (INET_SERVICE, "00500000", "80"),
        (INTEGER, "03000000", "3"),
        (CLASSID, "07000100", "1:7"),
    ],
)
def test_values(type_: Datatype, data: str, expected: str) -> None:
    assert expected == value_text(type_, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("set_", "end", "expected"),
    [
        (Set("s", (V4.daddr, L4PROTO, DPORT), ""), b"", "10.112.0.21 . tcp . 80"),
        (
            Set("s", (V4.daddr, L4PROTO, DPORT), "", counter=True),
            b"",
            "10.112.0.21 . tcp . 80 counter packets 0 bytes 0",
        ),
        (
            Set("s", (V4.daddr, L4PROTO, DPORT), "", verdicts=True),
            verdict_tail(goto("pick-2")),
            "10.112.0.21 . tcp . 80 : goto pick-2",
        ),
        (
            Set("s", (V4.daddr, L4PROTO, DPORT), "", verdicts=True),
            verdict_tail(DROP),
            "10.112.0.21 . tcp . 80 : drop",
        ),
        (
            Set("s", (V4.daddr, L4PROTO, DPORT), "", (PRIORITY,)),
            tail(bytes([9, 0, 0, 0])),
            "10.112.0.21 . tcp . 80 : 0:9",
        ),
    ],
)
def test_elements(set_: Set, end: bytes, expected: str) -> None:
    assert expected == element_text(set_, head(FRONTEND), end)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.0", "10.255.255.255", "10.0.0.0/8"),
        ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
        ("10.0.0.0", "10.0.0.2", "10.0.0.0-10.0.0.2"),
        ("10.0.0.2", "10.0.0.5", "10.0.0.2-10.0.0.5"),
        ("fd40::", "fd40:0:0:ffff:ffff:ffff:ffff:ffff", "fd40::/48"),
    ],
)
def test_ranges(first: str, last: str, expected: str) -> None:
    assert expected == range_text(pack(first), pack(last))


def described(*documents: dict[str, object]) -> str:
    here = node(Mode.NFTABLES)
    return describe(program(here, SETTINGS), table_of(*documents), here)


def block(text: str, head_: str) -> list[str]:
    """The lines of a set or chain."""
    _, _, rest = text.partition(f"\t{head_} {{\n")
    inside, _, _ = rest.partition("\n\t}")
    return [line.strip() for line in inside.splitlines()]


def test_a_table_with_its_services() -> None:
    spec = {"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
    text = described(everywhere(spec), endpoint_slice("L1 R1"))
    assert block(text, "map service-affinity")[-3:] == [
        "elements = { 10.112.0.21 . tcp . 80 : 0:1,",
        "198.18.0.5 . tcp . 80 : 0:1,",
        "203.0.113.7 . tcp . 80 : 0:1 }",
    ]
    assert block(text, "chain pick-local-1") == [
        "meta priority set numgen random mod 1 offset 1 goto draw-from-service-local-endpoints"
    ]
    (drawn,) = block(text, "chain draw-from-service-local-endpoints")
    assert drawn.endswith("th dport . meta priority map @service-local-endpoints")
    assert block(text, "set service-cidrs")[-1] == "elements = { 10.112.0.0/16 }"
    assert block(text, "set hairpins")[-1] == (
        "elements = { 10.64.3.11 . 10.64.3.11 . tcp . 8080 }"
    )


def test_services_that_keep_their_clients_are_numbered_by_their_names() -> None:
    sticky = {"sessionAffinity": "ClientIP"}
    first = service({**sticky, "clusterIP": "10.112.0.9"}, name="basket")
    text = described(service(sticky), first, endpoint_slice("L1"))
    assert block(text, "map service-affinity")[-1] == "elements = { 10.112.0.21 . tcp . 80 : 0:2 }"


def test_an_empty_cluster_has_no_elements_but_the_nodes() -> None:
    assert described().count("elements =") == 2


def test_what_one_service_port_has() -> None:
    here = node(Mode.NFTABLES)
    spec = {"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
    table = table_of(everywhere(spec), endpoint_slice("L1 R1"))
    (entry,) = table.entries.values()
    here_placed = place(entry, None, 1)
    numbers = fresh_numbers(sorted({each.chain for each in choices(here_placed)}), {})
    text = describe_some(program(here, SETTINGS), [here_placed], here, numbers)
    lines = text.splitlines()
    at = "ip kube-proxy"
    assert f"add element {at} cluster-ips-in-use {{ 10.112.0.21 }}" in lines
    assert f"add element {at} service-connections {{ 10.112.0.21 . tcp . 80 }}" in lines
    number = f"0:{numbers['pick-2-sticky']:x}"
    assert f"add element {at} service-choices {{ 10.112.0.21 . tcp . 80 : {number} }}" in lines
    assert f"add element {at} choice-chains {{ {number} : goto pick-2-sticky }}" in lines
    assert (
        f"add element {at} service-endpoints"
        " { 10.112.0.21 . tcp . 80 . 0:1 : 10.64.3.11 . 8080 }" in lines
    )
    assert "chain pick-2-sticky {" in lines


def test_what_an_ipv6_service_port_has() -> None:
    here = node(Mode.NFTABLES, Family.IPV6)
    six = service({"clusterIP": "fd00::21", "clusterIPs": ["fd00::21"], "ipFamilies": ["IPv6"]})
    (entry,) = table_of(six, family=Family.IPV6).entries.values()
    text = describe_some(program(here, SETTINGS), [place(entry, None, 0)], here, {})
    assert "add element ip6 kube-proxy cluster-ips-in-use { fd00::21 }\n" in text


def guarded(ranges: int) -> Document:
    prefixes = [f"10.{n >> 7}.{n * 2 & 255}.0/24" for n in range(ranges)]
    return everywhere({"loadBalancerSourceRanges": prefixes})


def test_the_source_ranges_of_a_service_port() -> None:
    here = node(Mode.NFTABLES)
    (entry,) = table_of(guarded(2)).entries.values()
    text = describe_some(program(here, SETTINGS), [place(entry, None, 0, 7)], here, {})
    at = "add element ip kube-proxy"
    assert f"{at} firewall-services {{ {VIP} . tcp . 80 : 0:7 }}\n" in text
    assert f"{at} firewall-sources {{ 0:7 . 10.0.0.0/24 }}\n" in text
    assert f"{at} firewall-sources {{ 0:7 . 10.0.2.0/24 }}\n" in text


def test_what_cannot_be_programmed_is_left_out_and_named() -> None:
    text = described(guarded(5001))
    comment, rest = text.split("\n", 1)
    assert comment.startswith("# shop/cart:http is left out: loadBalancerSourceRanges has 5,001")
    assert rest.startswith("table ip kube-proxy {")
    assert VIP not in rest
