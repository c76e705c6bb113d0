import pytest
from msgspec.structs import replace

from kubeproxy.config.defaults import with_defaults, with_platform_defaults
from kubeproxy.config.types import (
    IPVS,
    ClientConnection,
    Conntrack,
    IPTables,
    KubeProxyConfiguration,
    Logging,
    NFTables,
)
from kubeproxy.config.values import Duration, of_seconds
from kubeproxy.dataplane.modes import MODES

ZERO = Duration()


def test_an_empty_configuration_has_upstreams_defaults() -> None:
    config = with_defaults(KubeProxyConfiguration())
    expected = KubeProxyConfiguration(
        client_connection=ClientConnection(
            content_type="application/vnd.kubernetes.protobuf", qps=5.0, burst=10
        ),
        logging=Logging(format="text", flush_frequency=of_seconds(5)),
        bind_address="0.0.0.0",
        healthz_bind_address="0.0.0.0:10256",
        metrics_bind_address="127.0.0.1:10249",
        iptables=IPTables(14, False, True, of_seconds(30), of_seconds(1)),
        ipvs=IPVS(of_seconds(30), ZERO),
        nftables=NFTables(14, False, of_seconds(30), of_seconds(1)),
        oom_score_adj=-999,
        conntrack=Conntrack(32768, 131072, of_seconds(86400), of_seconds(3600)),
        config_sync_period=of_seconds(900),
    )
    assert expected == config


def test_zeros_count_as_absent_where_they_mean_nothing() -> None:
    zeros = KubeProxyConfiguration(
        client_connection=ClientConnection(content_type="", qps=0.0, burst=0),
        logging=Logging(format="", flush_frequency=0),
        iptables=IPTables(sync_period=ZERO, min_sync_period=ZERO),
        ipvs=IPVS(sync_period=ZERO),
        nftables=NFTables(sync_period=ZERO, min_sync_period=ZERO),
        config_sync_period=ZERO,
    )
    assert with_defaults(KubeProxyConfiguration()) == with_defaults(zeros)


def test_zeros_that_mean_zero_stay() -> None:
    given = KubeProxyConfiguration(
        iptables=IPTables(masquerade_bit=0, localhost_node_ports=False),
        nftables=NFTables(masquerade_bit=0),
        ipvs=IPVS(min_sync_period=ZERO),
        oom_score_adj=0,
        conntrack=Conntrack(0, 0, ZERO, ZERO),
    )
    config = with_defaults(given)
    assert given.iptables == config.iptables
    assert given.nftables == config.nftables
    assert given.ipvs == config.ipvs
    assert given.oom_score_adj == config.oom_score_adj
    assert given.conntrack == config.conntrack


@pytest.mark.parametrize(
    ("bind", "healthz", "metrics"),
    [
        pytest.param("10.0.0.1", "0.0.0.0:10256", "127.0.0.1:10249", id="ipv4"),
        pytest.param("fd00::1", "[::]:10256", "[::1]:10249", id="ipv6"),
        pytest.param("nonsense", "[::]:10256", "[::1]:10249", id="nonsense-counts-as-ipv6"),
    ],
)
def test_addresses_follow_the_bind_address(bind: str, healthz: str, metrics: str) -> None:
    config = with_defaults(KubeProxyConfiguration(bind_address=bind))
    assert healthz == config.healthz_bind_address
    assert metrics == config.metrics_bind_address


def test_bare_addresses_get_their_ports() -> None:
    given = KubeProxyConfiguration(healthz_bind_address="10.0.0.1", metrics_bind_address="fd00::1")
    config = with_defaults(given)
    assert config.healthz_bind_address == "10.0.0.1:10256"
    assert config.metrics_bind_address == "[fd00::1]:10249"


def test_no_mode_is_nftables_on_primary_addresses_and_is_mentioned() -> None:
    config, notices = with_platform_defaults(KubeProxyConfiguration(), MODES)
    assert config.mode == "nftables"
    assert config.node_port_addresses == ("primary",)
    assert config.detect_local_mode == "ClusterCIDR"
    assert [notice.pairs for notice in notices] == [{"mode": "nftables"}]
    assert "nftables" in notices[0].message


def test_settings_of_iptables_are_mentioned_when_the_mode_is_ours() -> None:
    given = KubeProxyConfiguration(iptables=IPTables(masquerade_all=True))
    _, notices = with_platform_defaults(given, MODES)
    assert [notice.pairs for notice in notices] == [{"mode": "nftables"}, {"section": "iptables"}]


@pytest.mark.parametrize(
    ("mode", "expected"), [("nftables", ("primary",)), ("iptables", ()), ("ipvs", ())]
)
def test_only_nftables_limits_node_ports_by_default(mode: str, expected: tuple[str, ...]) -> None:
    config, _ = with_platform_defaults(KubeProxyConfiguration(mode=mode), MODES)
    assert expected == config.node_port_addresses


def test_what_is_given_stays() -> None:
    given = KubeProxyConfiguration(
        mode="nftables", node_port_addresses=("all",), detect_local_mode="NodeCIDR"
    )
    assert (given, ()) == with_platform_defaults(given, MODES)


@pytest.mark.parametrize(
    ("mode", "periods", "bit", "all_"),
    [
        pytest.param("iptables", (1, 2), 3, False, id="iptables"),
        pytest.param("ipvs", (4, 5), 3, False, id="ipvs-masquerades-as-iptables-says"),
        pytest.param("nftables", (6, 7), 8, True, id="nftables"),
        pytest.param("", (6, 7), 8, True, id="no-mode-is-nftables"),
    ],
)
def test_the_active_modes_settings(
    mode: str, periods: tuple[int, int], bit: int, all_: bool
) -> None:
    config = KubeProxyConfiguration(
        mode=mode,
        iptables=IPTables(3, False, True, of_seconds(1), of_seconds(2)),
        ipvs=IPVS(of_seconds(4), of_seconds(5)),
        nftables=NFTables(8, True, of_seconds(6), of_seconds(7)),
    )
    assert periods == (config.sync_period.seconds, config.min_sync_period.seconds)
    assert bit == config.masquerade_bit
    assert all_ == config.masquerade_all


def test_cluster_cidrs_are_split_without_trimming() -> None:
    config = KubeProxyConfiguration()
    assert config.cluster_cidrs == ()
    assert replace(config, cluster_cidr="a, b").cluster_cidrs == ("a", " b")
