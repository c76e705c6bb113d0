"""Which packets are a pod's, and which are for a node port: as matches."""

import msgspec
import pytest

from dataplane.iptables.clusters import kestrel
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import (
    COUNTERS,
    Options,
    RuleSetup,
    node_port_destinations,
    serves_localhost,
    setup_of,
)
from kubeproxy.table.node import Detector, PodCIDR, PodInterface
from world import prefix

LOCAL = "-m addrtype --dst-type LOCAL"


@pytest.mark.parametrize(
    ("detector", "from_pod", "masqueraded"),
    [
        pytest.param(None, "", None, id="pods-cannot-be-recognised"),
        pytest.param(
            PodCIDR(prefix("10.64.0.0/14")), "-s 10.64.0.0/14", "! -s 10.64.0.0/14", id="by-range"
        ),
        pytest.param(PodInterface("cbr0"), "-i cbr0", "! -i cbr0", id="by-bridge"),
        pytest.param(PodInterface("veth", prefix=True), "-i veth+", "! -i veth+", id="by-prefix"),
    ],
)
def test_pods_are_recognised(
    detector: Detector | None, from_pod: str, masqueraded: str | None
) -> None:
    node = msgspec.structs.replace(kestrel(), detector=detector)
    assert setup_of(node, Options()) == RuleSetup(from_pod, masqueraded)
    node = msgspec.structs.replace(node, masquerade_all=True)
    assert setup_of(node, Options()) == RuleSetup(from_pod, "")


@pytest.mark.parametrize(
    ("family", "counters", "expected"),
    [
        (Family.IPV4, frozenset(COUNTERS), True),
        (Family.IPV4, frozenset(), False),
        (Family.IPV6, frozenset(COUNTERS), False),
    ],
)
def test_what_the_node_sends_to_its_own_node_ports_is_counted(
    family: Family, counters: frozenset[str], expected: bool
) -> None:
    setup = setup_of(kestrel(family), Options(counters=counters))
    assert setup.counts_localhost == expected


@pytest.mark.parametrize(
    ("family", "ranges", "localhost", "expected"),
    [
        pytest.param(Family.IPV4, ["0.0.0.0/0"], True, [LOCAL], id="all-with-localhost"),
        pytest.param(
            Family.IPV4,
            ["0.0.0.0/0"],
            False,
            [f"{LOCAL} ! -d 127.0.0.0/8"],
            id="all-but-localhost",
        ),
        pytest.param(Family.IPV6, ["::/0"], True, [f"{LOCAL} ! -d ::1/128"], id="ipv6-never-self"),
        pytest.param(
            Family.IPV4,
            ["198.51.100.0/24", "127.0.0.1/32"],
            True,
            ["-d 127.0.0.1", "-d 198.51.100.10", "-d 198.51.100.77"],
            id="ranges-with-localhost",
        ),
        pytest.param(
            Family.IPV4,
            ["198.51.100.64/26", "127.0.0.0/8"],
            False,
            ["-d 198.51.100.77"],
            id="ranges-but-localhost-is-off",
        ),
        pytest.param(
            Family.IPV6,
            ["2001:db8:aa::/64", "::1/128"],
            True,
            ["-d 2001:db8:aa::10", "-d 2001:db8:aa::77"],
            id="ipv6-ranges",
        ),
        pytest.param(Family.IPV4, [], True, [], id="a-family-that-the-list-does-not-name"),
    ],
)
def test_where_node_ports_are_served(
    family: Family, ranges: list[str], localhost: bool, expected: list[str]
) -> None:
    node = msgspec.structs.replace(
        kestrel(family),
        node_port_ranges=tuple(map(prefix, ranges)),
        localhost_node_ports=localhost,
    )
    assert node_port_destinations(node) == expected


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["0.0.0.0/0"], True),
        (["127.0.0.5/32"], True),
        (["96.0.0.0/3"], True),
        (["198.51.100.0/24"], False),
        ([], False),
    ],
)
def test_localhost_is_served_where_the_ranges_hold_it(ranges: list[str], expected: bool) -> None:
    node = msgspec.structs.replace(kestrel(), node_port_ranges=tuple(map(prefix, ranges)))
    assert serves_localhost(node) == expected


@pytest.mark.parametrize(
    ("bit", "mark"), [(14, "0x00004000"), (0, "0x00000001"), (31, "0x80000000")]
)
def test_the_mark_has_eight_digits(bit: int, mark: str) -> None:
    assert Options(bit).mark == mark
