import pytest
from msgspec.structs import replace

from kubeproxy.config.errors import ConfigError
from kubeproxy.config.flags import (
    config_from_flags,
    parse_flags,
    with_hostname_override,
    with_logging_flags,
)
from kubeproxy.config.types import (
    IPVS,
    ClientConnection,
    Conntrack,
    DetectLocal,
    FormatOptions,
    IPTables,
    KubeProxyConfiguration,
    Logging,
    NFTables,
    OutputRouting,
    TrafficSettings,
    VModuleItem,
)
from kubeproxy.config.values import Duration, Quantity, of_seconds

ZERO = Duration()


def config_of(*arguments: str) -> KubeProxyConfiguration:
    return config_from_flags(parse_flags(arguments))


def test_no_flags_are_the_defaults() -> None:
    config = config_of()
    assert config.healthz_bind_address == "0.0.0.0:10256"
    assert config.metrics_bind_address == "127.0.0.1:10249"
    assert (config.sync_period.seconds, config.min_sync_period.seconds) == (30, 1)


def test_every_flag_reaches_its_field() -> None:
    arguments = [
        "--bind-address=10.0.0.1",
        "--bind-address-hard-fail",
        "--cluster-cidr=10.0.0.0/8",
        "--config-sync-period=1m",
        "--conntrack-max-per-core=0",
        "--conntrack-min=2",
        "--conntrack-tcp-be-liberal",
        "--conntrack-tcp-timeout-close-wait=3s",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-udp-timeout=5s",
        "--conntrack-udp-timeout-stream=6s",
        "--detect-local-mode=NodeCIDR",
        "--feature-gates=A=true",
        "--healthz-bind-address=10.0.0.1:1",
        "--iptables-localhost-nodeports=false",
        "--iptables-masquerade-bit=3",
        "--iptables-min-sync-period=7s",
        "--iptables-sync-period=8s",
        "--ipvs-exclude-cidrs=10.0.0.0/8",
        "--ipvs-scheduler=lc",
        "--ipvs-strict-arp",
        "--ipvs-tcp-timeout=9s",
        "--ipvs-tcpfin-timeout=10s",
        "--ipvs-udp-timeout=11s",
        "--kube-api-burst=12",
        "--kube-api-content-type=application/json",
        "--kube-api-qps=13",
        "--kubeconfig=/k",
        "--log-flush-frequency=14s",
        "--log-json-info-buffer-size=1k",
        "--log-json-split-stream",
        "--log-text-info-buffer-size=2k",
        "--log-text-split-stream",
        "--logging-format=json",
        "--masquerade-all",
        "--metrics-bind-address=10.0.0.1:2",
        "--nodeport-addresses=all",
        "--oom-score-adj=0",
        "--pod-bridge-interface=br0",
        "--pod-interface-name-prefix=veth",
        "--profiling",
        "--proxy-mode=iptables",
        "--rules-page=none",
        "--show-hidden-metrics-for-version=1.37",
        "--status-page=all",
        "--status-socket=",
        "--traffic-metrics=service",
        "--traffic-series-limit=14",
        "-v=4",
        "--vmodule=a=5",
    ]
    expected = KubeProxyConfiguration(
        feature_gates={"A": True},
        client_connection=ClientConnection("/k", "", "application/json", 13.0, 12),
        logging=Logging(
            "json",
            of_seconds(14),
            4,
            (VModuleItem("a", 5),),
            FormatOptions(
                OutputRouting(True, Quantity("2k", 2000)),
                OutputRouting(True, Quantity("1k", 1000)),
            ),
        ),
        bind_address="10.0.0.1",
        healthz_bind_address="10.0.0.1:1",
        metrics_bind_address="10.0.0.1:2",
        bind_address_hard_fail=True,
        enable_profiling=True,
        show_hidden_metrics_for_version="1.37",
        mode="iptables",
        iptables=IPTables(3, True, False, of_seconds(8), of_seconds(7)),
        ipvs=IPVS(
            scheduler="lc",
            exclude_cidrs=("10.0.0.0/8",),
            strict_arp=True,
            tcp_timeout=of_seconds(9),
            tcp_fin_timeout=of_seconds(10),
            udp_timeout=of_seconds(11),
        ),
        detect_local_mode="NodeCIDR",
        detect_local=DetectLocal("br0", "veth"),
        cluster_cidr="10.0.0.0/8",
        node_port_addresses=("all",),
        oom_score_adj=0,
        conntrack=Conntrack(0, 2, ZERO, of_seconds(3), True, of_seconds(5), of_seconds(6)),
        config_sync_period=of_seconds(60),
        traffic=TrafficSettings("service", 14),
        rules_page="none",
        status_page="all",
        status_socket="",
    )
    assert expected == config_of(*arguments)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("iptables", (10, 2), id="iptables"),
        pytest.param("nftables", (10, 2), id="nftables-uses-the-flags-of-iptables"),
        pytest.param("", (10, 2), id="no-mode-too"),
        pytest.param("ipvs", (20, 3), id="ipvs-has-its-own"),
    ],
)
def test_sync_periods_go_to_the_active_mode(mode: str, expected: tuple[int, int]) -> None:
    config = config_of(
        f"--proxy-mode={mode}",
        "--iptables-sync-period=10s",
        "--iptables-min-sync-period=2s",
        "--ipvs-sync-period=20s",
        "--ipvs-min-sync-period=3s",
    )
    assert expected == (config.sync_period.seconds, config.min_sync_period.seconds)


def test_only_a_flag_gives_a_true_zero() -> None:
    assert not config_of("--iptables-min-sync-period=0").min_sync_period


def test_ipvs_waits_a_second_between_syncs_when_configured_by_flags() -> None:
    assert config_of("--proxy-mode=ipvs").min_sync_period.seconds == 1


@pytest.mark.parametrize("mode", ["iptables", "ipvs", "nftables", ""])
def test_masquerade_all_goes_to_the_active_mode(mode: str) -> None:
    config = config_of("--masquerade-all", f"--proxy-mode={mode}")
    uses_iptables = mode in ("iptables", "ipvs")
    assert config.masquerade_all
    assert IPTables(masquerade_all=uses_iptables) == config.iptables
    assert NFTables(masquerade_all=not uses_iptables) == config.nftables


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--healthz-bind-address="], "0.0.0.0:10256", id="an-empty-one-is-none"),
        pytest.param(["--healthz-bind-address=::"], "[::]:10256", id="a-bare-one-gets-a-port"),
        pytest.param(["--healthz-port=99"], "0.0.0.0:99", id="the-port-alone"),
        pytest.param(
            ["--healthz-port=99", "--healthz-bind-address=10.0.0.1"], "10.0.0.1:99", id="both"
        ),
        pytest.param(
            ["--healthz-port=99", "--healthz-bind-address=10.0.0.1:80"],
            "10.0.0.1:80",
            id="a-port-in-the-address-wins",
        ),
        pytest.param(["--healthz-port=0"], "", id="port-0-is-off"),
        pytest.param(["--bind-address=fd00::1"], "0.0.0.0:10256", id="not-of-the-bind-address"),
    ],
)
def test_where_health_is_served(arguments: list[str], expected: str) -> None:
    assert expected == config_of(*arguments).healthz_bind_address


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--metrics-port=99"], "127.0.0.1:99", id="the-port-alone"),
        pytest.param(["--metrics-port=0"], "", id="port-0-is-left-to-validation"),
    ],
)
def test_where_metrics_are_served(arguments: list[str], expected: str) -> None:
    assert expected == config_of(*arguments).metrics_bind_address


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--bind-address="], "0.0.0.0", id="empty-is-the-default"),
        pytest.param(
            ["--bind-address=", "--bind-address=10.0.0.1"], "10.0.0.1", id="empty-then-given"
        ),
    ],
)
def test_the_bind_address(arguments: list[str], expected: str) -> None:
    assert expected == config_of(*arguments).bind_address


FROM_FILE = KubeProxyConfiguration(
    logging=Logging("json", of_seconds(9), 1, (VModuleItem("f", 1),))
)


def test_logging_flags_that_are_not_given_leave_the_file_alone() -> None:
    assert with_logging_flags(FROM_FILE, parse_flags([])) == FROM_FILE


def test_logging_flags_that_are_given_win_and_their_patterns_come_first() -> None:
    parsed = parse_flags(["-v=0", "--logging-format=text", "--vmodule=g=2", "--proxy-mode=ipvs"])
    expected = Logging("text", of_seconds(9), 0, (VModuleItem("g", 2), VModuleItem("f", 1)))
    assert with_logging_flags(FROM_FILE, parsed) == replace(FROM_FILE, logging=expected)


def test_the_nodes_name_is_trimmed_and_lowered() -> None:
    config = KubeProxyConfiguration(hostname_override="file")
    parsed = parse_flags(["--hostname-override= Node-1 "])
    assert with_hostname_override(config, parsed).hostname_override == "node-1"
    assert with_hostname_override(config, parse_flags([])).hostname_override == "file"


def test_a_blank_name_of_the_node_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^empty hostname-override is invalid$"):
        with_hostname_override(KubeProxyConfiguration(), parse_flags(["--hostname-override= "]))
