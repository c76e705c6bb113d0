import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS
from kubeproxy.config.load import Loaded, complete
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine.node import (
    detector,
    node_ips,
    node_port_ranges,
    node_view,
    primary_family,
    with_bind_address,
)
from kubeproxy.table.node import Detector, NodeView, PodCIDR, PodInterface
from world import prefix

V4, V6 = Family.IPV4, Family.IPV6
IP4, IP6 = "198.51.100.10", "2001:db8:aa::10"
KESTREL = NodeState("kestrel", ips=(IP4, "198.51.100.77", IP6), pod_cidrs=("10.64.3.0/24",))


def loaded(*flags: str) -> Loaded:
    return complete(parse_flags(flags), None, MODES)


@pytest.mark.parametrize(
    ("node", "bind_address", "expected"),
    [
        pytest.param(KESTREL, "0.0.0.0", (V4, {V4: IP4, V6: IP6}), id="the-first-of-each"),
        pytest.param(
            NodeState("kestrel", ips=(IP6, IP4)),
            "::",
            (V6, {V4: IP4, V6: IP6}),
            id="the-first-is-primary",
        ),
        pytest.param(
            NodeState("kestrel", ips=(IP4,)),
            "0.0.0.0",
            (V4, {V4: IP4}),
            id="one-family",
        ),
        pytest.param(NodeState("kestrel"), "0.0.0.0", (V4, {}), id="none"),
        pytest.param(None, "0.0.0.0", (V4, {}), id="no-node"),
        pytest.param(
            KESTREL,
            "2001:db8:aa::77",
            (V6, {V4: IP4, V6: "2001:db8:aa::77"}),
            id="bind-address-replaces-and-becomes-primary",
        ),
        pytest.param(
            None,
            IP4,
            (V4, {V4: IP4}),
            id="bind-address-without-node",
        ),
        pytest.param(
            KESTREL, "nonsense", (V4, {V4: IP4, V6: IP6}), id="bind-address-that-is-none"
        ),
    ],
)
def test_node_ips(
    node: NodeState | None, bind_address: str, expected: tuple[Family, dict[Family, str]]
) -> None:
    own = with_bind_address(node, bind_address)
    assert expected == (primary_family(own), node_ips(own))


def test_a_loopback_address_says_nothing() -> None:
    own = with_bind_address(KESTREL, "127.0.0.1")
    assert (primary_family(own), node_ips(own)) == (V4, {V6: IP6})


@pytest.mark.parametrize(
    ("flags", "node", "expected"),
    [
        pytest.param((), KESTREL, {V4: None, V6: None}, id="nothing-configured"),
        pytest.param(
            ("--cluster-cidr=10.64.0.0/14,fd40::/48",),
            None,
            {V4: PodCIDR(prefix("10.64.0.0/14")), V6: PodCIDR(prefix("fd40::/48"))},
            id="cluster-cidrs",
        ),
        pytest.param(
            ("--cluster-cidr=fd40::/48",),
            KESTREL,
            {V4: None, V6: PodCIDR(prefix("fd40::/48"))},
            id="cluster-cidr-of-one-family",
        ),
        pytest.param(
            ("--cluster-cidr=nonsense,10.64.0.0/14",),
            KESTREL,
            {V4: PodCIDR(prefix("10.64.0.0/14")), V6: None},
            id="cluster-cidr-that-is-none",
        ),
        pytest.param(
            ("--detect-local-mode=NodeCIDR", "--cluster-cidr=10.64.0.0/14"),
            KESTREL,
            {V4: PodCIDR(prefix("10.64.3.0/24")), V6: None},
            id="node-cidr",
        ),
        pytest.param(
            ("--detect-local-mode=NodeCIDR",), None, {V4: None, V6: None}, id="node-cidr-no-node"
        ),
        pytest.param(
            ("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0"),
            None,
            {V4: PodInterface("cni0"), V6: PodInterface("cni0")},
            id="bridge",
        ),
        pytest.param(
            ("--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"),
            None,
            {V4: PodInterface("veth", prefix=True), V6: PodInterface("veth", prefix=True)},
            id="interface-prefix",
        ),
    ],
)
def test_detector(
    flags: tuple[str, ...], node: NodeState | None, expected: dict[Family, Detector | None]
) -> None:
    config = loaded(*flags).config
    assert expected == {
        family: detector(config, node or NodeState(""), family) for family in Family
    }


@pytest.mark.parametrize(
    ("flags", "node", "expected"),
    [
        pytest.param(
            ("--proxy-mode=nftables",),
            KESTREL,
            {V4: (f"{IP4}/32",), V6: (f"{IP6}/128",)},
            id="nftables-serves-the-primary-addresses",
        ),
        pytest.param(
            ("--proxy-mode=nftables",),
            NodeState("kestrel", ips=(IP4,)),
            {V4: (f"{IP4}/32",), V6: ()},
            id="nftables-serves-nowhere-without-an-address-of-the-family",
        ),
        pytest.param(
            ("--proxy-mode=iptables",),
            KESTREL,
            {V4: ("0.0.0.0/0",), V6: ("::/0",)},
            id="iptables-serves-everywhere",
        ),
        pytest.param(
            ("--nodeport-addresses=198.51.100.0/24,192.0.2.0/24",),
            KESTREL,
            {V4: ("198.51.100.0/24", "192.0.2.0/24"), V6: ()},
            id="a-family-that-is-not-listed-serves-nowhere",
        ),
        pytest.param(
            ("--nodeport-addresses=localhost,primary",),
            KESTREL,
            {V4: ("127.0.0.0/8", f"{IP4}/32"), V6: ("::1/128", f"{IP6}/128")},
            id="words",
        ),
    ],
)
def test_node_port_ranges(
    flags: tuple[str, ...], node: NodeState, expected: dict[Family, tuple[str, ...]]
) -> None:
    config = loaded(*flags).config
    own = with_bind_address(node, config.bind_address)
    actual = {family: tuple(map(str, node_port_ranges(config, own, family))) for family in Family}
    assert expected == actual


def test_a_configuration_without_node_port_addresses_serves_everywhere() -> None:
    config = msgspec.structs.replace(loaded().config, node_port_addresses=())
    assert (prefix("::/0"),) == node_port_ranges(config, KESTREL, V6)


def test_node_view() -> None:
    gate = f"--feature-gates={NFTABLES_LOCALHOST_NODE_PORTS}=true"
    found = loaded(
        "--cluster-cidr=10.64.0.0/14",
        "--masquerade-all",
        "--iptables-localhost-nodeports=false",
        "--nodeport-addresses=192.0.2.0/24",
        gate,
    )
    assert NodeView(
        family=V4,
        detector=PodCIDR(prefix("10.64.0.0/14")),
        masquerade_all=True,
        node_port_ranges=(prefix("192.0.2.0/24"),),
        localhost_node_ports=False,
        localhost_gate=True,
        name="kestrel",
        ip="198.51.100.10",
    ) == node_view(found.config, found.gates, V4, KESTREL)


def test_node_view_by_default() -> None:
    found = loaded()
    view = node_view(found.config, found.gates, V4, NodeState(""))
    assert NodeView(V4) == view
