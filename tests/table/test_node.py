import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.node import NodeView, PodCIDR, PodInterface
from world import Mode, node, prefix

NFT, IPT, IPVS = Mode.NFTABLES, Mode.IPTABLES, Mode.IPVS
V4, V6 = Family.IPV4, Family.IPV6
LINK_LOCAL = "fe80::1"


def with_ranges(mode: Mode, family: Family, *ranges: str, **fields: object) -> NodeView:
    return msgspec.structs.replace(
        node(mode, family), node_port_ranges=tuple(map(prefix, ranges)), **fields
    )


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        (PodCIDR(prefix("10.64.0.0/14")), "the pod range 10.64.0.0/14"),
        (PodInterface("cni0"), "interface cni0"),
        (PodInterface("veth", prefix=True), "interfaces veth*"),
    ],
)
def test_detectors_in_words(detector: object, expected: str) -> None:
    assert expected == str(detector)


@pytest.mark.parametrize(
    ("family", "address", "own", "loopback"),
    [
        (V4, "198.51.100.77", True, False),
        (V4, "198.51.100.78", False, False),
        (V4, "127.0.0.1", True, True),
        (V4, "127.9.9.9", True, True),
        (V6, "2001:db8:aa::10", True, False),
        (V6, "::1", True, True),
        (V6, "::2", False, False),
    ],
)
def test_own_addresses(family: Family, address: str, own: bool, loopback: bool) -> None:
    here = node(NFT, family)
    assert (own, loopback) == (here.is_own(address), here.is_loopback(address))


@pytest.mark.parametrize(
    ("mode", "family", "ranges", "address", "expected"),
    [
        pytest.param(NFT, V4, "0.0.0.0/0", "198.51.100.77", True, id="all"),
        pytest.param(NFT, V4, "198.51.100.10/32", "198.51.100.77", False, id="not-listed"),
        pytest.param(NFT, V4, "0.0.0.0/0", "198.51.100.78", False, id="not-own"),
        pytest.param(NFT, V4, "127.0.0.0/8", "127.0.0.1", False, id="nft-loopback"),
        pytest.param(IPT, V4, "0.0.0.0/0", "127.0.0.1", True, id="ipt-loopback"),
        pytest.param(IPT, V4, "198.51.100.0/24", "127.0.0.1", False, id="ipt-loopback-not-listed"),
        pytest.param(IPT, V6, "::/0", "::1", False, id="ipt-loopback-of-ipv6"),
        pytest.param(IPVS, V4, "0.0.0.0/0", "127.0.0.1", False, id="ipvs-loopback"),
        pytest.param(NFT, V6, "::/0", LINK_LOCAL, True, id="nft-link-local"),
        pytest.param(IPT, V6, "::/0", LINK_LOCAL, True, id="ipt-link-local"),
        pytest.param(IPVS, V6, "::/0", LINK_LOCAL, False, id="ipvs-link-local"),
        pytest.param(IPVS, V6, "::/0", "2001:db8:aa::10", True, id="ipvs-global"),
    ],
)
def test_addresses_that_serve_node_ports(
    mode: Mode, family: Family, ranges: str, address: str, expected: bool
) -> None:
    here = with_ranges(mode, family, ranges)
    here = msgspec.structs.replace(here, addresses=(*here.addresses, LINK_LOCAL))
    assert expected is here.accepts_node_ports(address, mode.quirks)


def test_iptables_can_leave_the_loopback_alone() -> None:
    here = with_ranges(IPT, V4, "0.0.0.0/0", localhost_node_ports=False)
    assert not here.accepts_node_ports("127.0.0.1", IPT.quirks)


@pytest.mark.parametrize(
    ("mode", "ranges", "expected"),
    [
        (NFT, ("0.0.0.0/0",), ("198.51.100.10", "198.51.100.77")),
        (IPT, ("0.0.0.0/0",), ("127.0.0.1", "198.51.100.10", "198.51.100.77")),
        (NFT, ("198.51.100.77/32", "192.0.2.0/24"), ("198.51.100.77",)),
        (NFT, (), ()),
    ],
)
def test_node_port_addresses(
    mode: Mode, ranges: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert expected == with_ranges(mode, V4, *ranges).node_port_addresses(mode.quirks)


@pytest.mark.parametrize(
    ("family", "gate", "ranges", "expected"),
    [
        pytest.param(V4, True, ("127.0.0.0/8",), True, id="loopback"),
        pytest.param(V4, True, ("198.51.100.0/24", "127.0.0.1/32"), True, id="part-of-loopback"),
        pytest.param(V4, True, ("0.0.0.0/0",), False, id="everything-does-not-ask-for-it"),
        pytest.param(V4, True, ("126.0.0.0/7",), False, id="more-than-loopback"),
        pytest.param(V4, True, (), False, id="nothing"),
        pytest.param(V4, False, ("127.0.0.0/8",), False, id="gate-off"),
        pytest.param(V6, True, ("::1/128",), True, id="ipv6"),
        pytest.param(V6, True, ("::/0",), False, id="ipv6-everything"),
    ],
)
def test_loopback_served_by_proxy(
    family: Family, gate: bool, ranges: tuple[str, ...], expected: bool
) -> None:
    here = with_ranges(NFT, family, *ranges, localhost_gate=gate)
    assert expected is here.serves_loopback_by_proxy()


TCP, UDP = Protocol.TCP, Protocol.UDP


@pytest.mark.parametrize(
    ("here", "mode", "protocol", "expected"),
    [
        pytest.param(with_ranges(NFT, V4, "192.0.2.0/24"), NFT, UDP, True, id="some-range"),
        pytest.param(with_ranges(NFT, V4), NFT, TCP, False, id="no-range"),
        pytest.param(with_ranges(IPT, V4), IPT, TCP, False, id="no-range-in-iptables-mode"),
        pytest.param(with_ranges(NFT, V4, "127.0.0.0/8"), NFT, TCP, False, id="loopback"),
        pytest.param(
            with_ranges(NFT, V4, "127.0.0.0/8", "192.0.2.0/24"), NFT, TCP, True, id="beside-it"
        ),
        pytest.param(with_ranges(NFT, V4, "0.0.0.0/0"), NFT, TCP, True, id="all"),
        pytest.param(
            with_ranges(NFT, V4, "127.0.0.1/32", localhost_gate=True), NFT, TCP, True, id="a-proxy"
        ),
        pytest.param(
            with_ranges(NFT, V4, "127.0.0.1/32", localhost_gate=True),
            NFT,
            UDP,
            False,
            id="a-proxy-of-TCP",
        ),
        pytest.param(with_ranges(IPT, V4, "127.0.0.0/8"), IPT, UDP, True, id="iptables-loopback"),
        pytest.param(
            with_ranges(IPT, V4, "127.0.0.0/8", localhost_node_ports=False),
            IPT,
            TCP,
            False,
            id="iptables-without-loopback",
        ),
        pytest.param(with_ranges(IPT, V6, "::1/128"), IPT, TCP, False, id="iptables-over-IPv6"),
        pytest.param(with_ranges(IPVS, V4, "127.0.0.0/8"), IPVS, TCP, False, id="ipvs-loopback"),
    ],
)
def test_whether_node_ports_can_be_served_at_all(
    here: NodeView, mode: Mode, protocol: Protocol, expected: bool
) -> None:
    assert expected is here.opens_node_ports(mode.quirks, protocol)
