import pytest

from kubeproxy.base.inet import Family
from kubeproxy.config.types import Conntrack, KubeProxyConfiguration
from kubeproxy.config.values import of_seconds, parse_duration
from kubeproxy.dataplane.iptables.setup import ROUTE_LOCALNET
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.sysctls import Sysctl
from kubeproxy.engine.settings import wanted_sysctls
from kubeproxy.table.node import NodeView
from world import prefix

ZERO = of_seconds(0)
NOTHING = Conntrack(
    max_per_core=0, min=131072, tcp_established_timeout=ZERO, tcp_close_wait_timeout=ZERO
)
EVERYWHERE = prefix("0.0.0.0/0")
V4, V6 = Family.IPV4, Family.IPV6


def values(conntrack: Conntrack, cores: int = 4) -> dict[str, int]:
    wanted = wanted_sysctls(conntrack, cores)
    return {setting.name.removeprefix("net.netfilter."): setting.value for setting in wanted}


@pytest.mark.parametrize(
    ("conntrack", "expected"),
    [
        pytest.param(NOTHING, {}, id="zeros-leave-everything-alone"),
        pytest.param(
            Conntrack(),
            {
                "nf_conntrack_max": 131072,
                "nf_conntrack_buckets": 32768,
                "nf_conntrack_tcp_timeout_established": 86400,
                "nf_conntrack_tcp_timeout_close_wait": 3600,
            },
            id="defaults",
        ),
        pytest.param(
            Conntrack(
                max_per_core=0,
                tcp_established_timeout=parse_duration("90m"),
                tcp_close_wait_timeout=ZERO,
                tcp_be_liberal=True,
                udp_timeout=parse_duration("1.9s"),
                udp_stream_timeout=parse_duration("2m"),
            ),
            {
                "nf_conntrack_tcp_timeout_established": 5400,
                "nf_conntrack_tcp_be_liberal": 1,
                "nf_conntrack_udp_timeout": 1,
                "nf_conntrack_udp_timeout_stream": 120,
            },
            id="timeouts-are-whole-seconds",
        ),
    ],
)
def test_what_the_configuration_asks_for(conntrack: Conntrack, expected: dict[str, int]) -> None:
    assert list(expected.items()) == list(values(conntrack).items())


def test_a_timeout_below_a_second_does_not_forget_every_connection_at_once() -> None:
    timeout = parse_duration("500ms")
    wanted = values(
        Conntrack(max_per_core=0, tcp_established_timeout=timeout, tcp_close_wait_timeout=ZERO)
    )
    assert wanted == {"nf_conntrack_tcp_timeout_established": 1}


@pytest.mark.parametrize(
    ("per_core", "least", "cores", "expected"),
    [
        pytest.param(32768, 131072, 2, 131072, id="the-minimum"),
        pytest.param(32768, 131072, 8, 262144, id="so-many-a-core"),
        pytest.param(32768, 131072, 32, 1048576, id="exactly-the-cap"),
        pytest.param(32768, 131072, 33, 1048576, id="no-more-than-the-cap"),
        pytest.param(32768, 2000000, 4, 2000000, id="a-minimum-above-the-cap"),
        pytest.param(32768, 2000000, 64, 1048576, id="the-cap-comes-before-the-minimum"),
        pytest.param(1000, 0, 3, 3000, id="no-minimum"),
    ],
)
def test_how_many_flows_may_be_tracked(
    per_core: int, least: int, cores: int, expected: int
) -> None:
    wanted = values(Conntrack(max_per_core=per_core, min=least), cores)
    assert expected == wanted["nf_conntrack_max"]
    assert expected // 4 == wanted["nf_conntrack_buckets"]


@pytest.mark.parametrize(
    ("at_least", "current", "expected"),
    [
        pytest.param(False, 10, True, id="equal"),
        pytest.param(False, 11, False, id="more"),
        pytest.param(True, 11, True, id="more-than-the-least"),
        pytest.param(True, 9, False, id="less-than-the-least"),
        pytest.param(True, None, False, id="not-there"),
    ],
)
def test_when_a_setting_will_do(at_least: bool, current: int | None, expected: bool) -> None:
    assert expected == Sysctl("a", 10, "", at_least).is_met(current)


@pytest.mark.parametrize(
    ("at_least", "current", "expected"),
    [
        pytest.param(False, 11, True, id="less-than-there-was"),
        pytest.param(False, 10, False, id="equal"),
        pytest.param(False, 9, False, id="more-than-there-was"),
        pytest.param(True, 11, False, id="what-is-only-ever-raised"),
        pytest.param(False, None, False, id="not-there"),
    ],
)
def test_when_a_setting_is_lowered(at_least: bool, current: int | None, expected: bool) -> None:
    assert expected == Sysctl("a", 10, "", at_least).lowers(current)


def test_every_setting_that_may_be_lowered_names_the_fields_that_ask_for_it() -> None:
    second = parse_duration("1s")
    everything = Conntrack(tcp_be_liberal=True, udp_timeout=second, udp_stream_timeout=second)
    asked = {
        setting.name.removeprefix("net.netfilter.nf_conntrack_"): setting.asked_by
        for setting in wanted_sysctls(everything, cores=1)
        if setting.asked_by
    }
    assert asked == {
        "max": "conntrack.maxPerCore, conntrack.min",
        "buckets": "conntrack.maxPerCore, conntrack.min",
        "tcp_timeout_established": "conntrack.tcpEstablishedTimeout",
        "tcp_timeout_close_wait": "conntrack.tcpCloseWaitTimeout",
        "udp_timeout": "conntrack.udpTimeout",
        "udp_timeout_stream": "conntrack.udpStreamTimeout",
    }


@pytest.mark.parametrize(
    ("mode", "node", "expected"),
    [
        pytest.param(
            "iptables",
            NodeView(V4, node_port_ranges=(EVERYWHERE,), localhost_node_ports=True),
            [ROUTE_LOCALNET],
            id="node-ports-on-localhost",
        ),
        pytest.param(
            "iptables",
            NodeView(V4, node_port_ranges=(EVERYWHERE,), localhost_node_ports=False),
            [],
            id="not-on-localhost",
        ),
        pytest.param(
            "nftables",
            NodeView(V4, node_port_ranges=(EVERYWHERE,), localhost_node_ports=True),
            [],
            id="nftables-needs-nothing",
        ),
        pytest.param("iptables", NodeView(V6, localhost_node_ports=True), [], id="no-ipv4"),
        pytest.param(
            "ipvs",
            NodeView(V4),
            [
                "net.ipv4.vs.conntrack",
                "net.ipv4.vs.expire_nodest_conn",
                "net.ipv4.vs.expire_quiescent_template",
                "net.ipv4.ip_forward",
            ],
            id="ipvs",
        ),
    ],
)
def test_what_the_mode_sets(mode: str, node: NodeView, expected: list[str]) -> None:
    found = load_mode(mode).sysctls(KubeProxyConfiguration(), {node.family: node}, "6.1")
    assert expected == [sysctl.name for sysctl in found.wanted]
