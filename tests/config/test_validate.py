from typing import Any

import pytest
from msgspec.structs import replace

from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.defaults import with_defaults, with_platform_defaults
from kubeproxy.config.errors import ConfigError
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import (
    IPVS,
    ClientConnection,
    Conntrack,
    DetectLocal,
    FastPathSettings,
    HealingSettings,
    IPTables,
    KubeProxyConfiguration,
    NFTables,
    TrafficSettings,
)
from kubeproxy.config.validate import validate
from kubeproxy.config.values import Duration, of_seconds
from kubeproxy.dataplane.modes import MODES

P = "KubeProxyConfiguration"
CONNTRACK = f"{P}.KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration"
DETECT = f"{P}.DetectLocalConfiguration"
NOT_NEGATIVE = "must be greater than or equal to 0"
BLANK = "(blank means the best-available proxy [currently nftables])"
BLOCK = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"
PAIR = (
    "must be a either a single CIDR or dual-stack pair of CIDRs"
    " (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"
)
PREVIOUS = "1." + str(int(KUBERNETES_VERSION.split(".")[1]) - 1)
MINUS = of_seconds(-1)
MODE_NAMES = ("nftables", "iptables", "ipvs")


def effective(config: KubeProxyConfiguration) -> KubeProxyConfiguration:
    return with_platform_defaults(with_defaults(config), MODES)[0]


def refusal(config: KubeProxyConfiguration, gates: Gates | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(config, gates or Gates(), MODES)
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(KubeProxyConfiguration(), id="nothing"),
        pytest.param(KubeProxyConfiguration(mode="iptables"), id="iptables"),
        pytest.param(KubeProxyConfiguration(mode="ipvs"), id="ipvs"),
        pytest.param(KubeProxyConfiguration(bind_address="010.000.000.001"), id="leading-zeros"),
        pytest.param(KubeProxyConfiguration(cluster_cidr="10.1.2.3/8,fd00::/8"), id="host-bits"),
        pytest.param(KubeProxyConfiguration(cluster_cidr="fd00::/8,10.0.0.0/8"), id="ipv6-first"),
        pytest.param(
            KubeProxyConfiguration(detect_local_mode="NodeCIDR", cluster_cidr="nonsense"),
            id="a-cluster-cidr-that-is-not-read",
        ),
        pytest.param(
            KubeProxyConfiguration(
                node_port_addresses=("primary", "localhost", "all", "10.0.0.0/8")
            ),
            id="keywords-and-cidrs",
        ),
        pytest.param(
            KubeProxyConfiguration(
                detect_local_mode="BridgeInterface", detect_local=DetectLocal("br0", "")
            ),
            id="a-bridge",
        ),
        pytest.param(
            KubeProxyConfiguration(
                detect_local_mode="InterfaceNamePrefix", detect_local=DetectLocal("", "veth")
            ),
            id="a-prefix-of-names",
        ),
        pytest.param(
            KubeProxyConfiguration(show_hidden_metrics_for_version=PREVIOUS), id="hidden-metrics"
        ),
        pytest.param(
            KubeProxyConfiguration(nftables=NFTables(masquerade_bit=99), mode="iptables"),
            id="a-bit-that-is-not-used",
        ),
        pytest.param(
            KubeProxyConfiguration(
                ipvs=IPVS(exclude_cidrs=("x",), tcp_timeout=MINUS), mode="iptables"
            ),
            id="ipvs-settings-that-are-not-used",
        ),
        pytest.param(
            KubeProxyConfiguration(client_connection=ClientConnection(qps=-1.0)), id="no-limit"
        ),
    ],
)
def test_what_is_right_is_taken(config: KubeProxyConfiguration) -> None:
    validate(effective(config), Gates(), MODES)


def test_health_may_be_served_nowhere() -> None:
    validate(replace(effective(KubeProxyConfiguration()), healthz_bind_address=""), Gates(), MODES)


def test_there_need_be_no_status_socket() -> None:
    validate(replace(effective(KubeProxyConfiguration()), status_socket=""), Gates(), MODES)


def test_no_local_mode_is_left_to_defaulting() -> None:
    validate(replace(effective(KubeProxyConfiguration()), detect_local_mode=""), Gates(), MODES)


def test_no_limit_needs_no_burst() -> None:
    client = ClientConnection(qps=-1.0, burst=0)
    config = replace(effective(KubeProxyConfiguration()), client_connection=client)
    validate(config, Gates(), MODES)


_LEAST = "must be at least 1s"
_WORDS = "none, all, retryRefused, retryUnanswered, resetGone, eject"
_HEALING: list[tuple[dict[str, Any], str]] = [
    ({"parts": "retry"}, f'Parts: Invalid value: "retry": "retry" is none of {_WORDS}'),
    ({"retries": 0}, "Retries: Invalid value: 0: must be within the range [1, 10]"),
    (
        {"ejection_failures": 0},
        "EjectionFailures: Invalid value: 0: must be within the range [1, 1000]",
    ),
    (
        {"max_ejected_percent": 101},
        "MaxEjectedPercent: Invalid value: 101: must be within the range [0, 100]",
    ),
    ({"gone_timeout": Duration(1)}, f'GoneTimeout: Invalid value: "1ns": {_LEAST}'),
    ({"ejection_interval": Duration()}, f'EjectionInterval: Invalid value: "0s": {_LEAST}'),
    ({"ejection_time": Duration()}, f'EjectionTime: Invalid value: "0s": {_LEAST}'),
    (
        {"max_ejection_time": of_seconds(4)},
        'MaxEjectionTime: Invalid value: "4s": must be greater than or equal to ejectionTime',
    ),
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"iptables": IPTables(masquerade_bit=32)},
            f"{P}.KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: 32: must be within"
            " the range [0, 31]",
            id="iptables-masquerade-bit",
        ),
        pytest.param(
            {"nftables": NFTables(balance="fastest")},
            f'{P}.KubeProxyNFTablesConfiguration.Balance: Unsupported value: "fastest": supported'
            ' values: "random", "round-robin", "source-hash"',
            id="nftables-balance",
        ),
        pytest.param(
            {"mode": "iptables", "nftables": NFTables(balance="fastest")},
            f'{P}.KubeProxyNFTablesConfiguration.Balance: Unsupported value: "fastest": supported'
            ' values: "random", "round-robin", "source-hash"',
            id="nftables-balance-which-explain-reads-in-every-mode",
        ),
        *(
            pytest.param(
                {"nftables": NFTables(healing=HealingSettings(**settings))},
                f"{P}.KubeProxyNFTablesConfiguration.Healing.{problem}",
                id=f"nftables-healing-{next(iter(settings))}",
            )
            for settings, problem in _HEALING
        ),
        pytest.param(
            {"nftables": NFTables(fast_path=FastPathSettings(after_packets=0))},
            f"{P}.KubeProxyNFTablesConfiguration.FastPath.AfterPackets: Invalid value: 0: must be"
            " within the range [1, 1000000]",
            id="nftables-fast-path-packets",
        ),
        pytest.param(
            {"nftables": NFTables(fast_path=FastPathSettings(interfaces=("eth0", "")))},
            f"{P}.KubeProxyNFTablesConfiguration.FastPath.Interfaces: Invalid value:"
            ' ["eth0",""]: must be names of network devices, or patterns such as eth*',
            id="nftables-fast-path-interfaces",
        ),
        pytest.param(
            {"nftables": NFTables(affinity_size=0)},
            f"{P}.KubeProxyNFTablesConfiguration.AffinitySize: Invalid value: 0: must be within"
            " the range [1, 16777216]",
            id="nftables-affinity-size",
        ),
        pytest.param(
            {"traffic": TrafficSettings(metrics="everything")},
            f'{P}.Traffic.Metrics: Unsupported value: "everything": supported values: "frontend",'
            ' "service", "none"',
            id="traffic-metrics",
        ),
        pytest.param(
            {"traffic": TrafficSettings(series_limit=-1)},
            f"{P}.Traffic.SeriesLimit: Invalid value: -1: {NOT_NEGATIVE}",
            id="traffic-series-limit",
        ),
        pytest.param(
            {"rules_page": "friends"},
            f'{P}.RulesPage: Unsupported value: "friends": supported values: "local", "all",'
            ' "none"',
            id="rules-page",
        ),
        pytest.param(
            {"status_page": ""},
            f'{P}.StatusPage: Unsupported value: "": supported values: "local", "all", "none"',
            id="status-page",
        ),
        pytest.param(
            {"status_socket": "run/status.sock"},
            f'{P}.StatusSocket: Invalid value: "run/status.sock": must be an absolute path',
            id="status-socket",
        ),
        pytest.param(
            {"nftables": NFTables(masquerade_bit=-1)},
            f"{P}.KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: -1: must be within"
            " the range [0, 31]",
            id="nftables-masquerade-bit",
        ),
        pytest.param(
            {"mode": "ipvs", "ipvs": IPVS(tcp_timeout=MINUS)},
            f'{P}.KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="ipvs-tcp-timeout",
        ),
        pytest.param(
            {"mode": "ipvs", "ipvs": IPVS(tcp_fin_timeout=MINUS)},
            f'{P}.KubeProxyIPVSConfiguration.TCPFinTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="ipvs-fin-timeout",
        ),
        pytest.param(
            {"mode": "ipvs", "ipvs": IPVS(udp_timeout=MINUS)},
            f'{P}.KubeProxyIPVSConfiguration.UDPTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="ipvs-udp-timeout",
        ),
        pytest.param(
            {"mode": "ipvs", "ipvs": IPVS(exclude_cidrs=("10.0.0.0/8", "a"))},
            f'{P}.KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: "a": must be a valid'
            " CIDR",
            id="ipvs-exclude-cidrs",
        ),
        pytest.param(
            {"conntrack": Conntrack(max_per_core=-1)},
            f"{CONNTRACK}.MaxPerCore: Invalid value: -1: {NOT_NEGATIVE}",
            id="conntrack-max-per-core",
        ),
        pytest.param(
            {"conntrack": Conntrack(min=-1)},
            f"{CONNTRACK}.Min: Invalid value: -1: {NOT_NEGATIVE}",
            id="conntrack-min",
        ),
        pytest.param(
            {"conntrack": Conntrack(tcp_established_timeout=MINUS)},
            f'{CONNTRACK}.TCPEstablishedTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="conntrack-established",
        ),
        pytest.param(
            {"conntrack": Conntrack(tcp_close_wait_timeout=MINUS)},
            f'{CONNTRACK}.TCPCloseWaitTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="conntrack-close-wait",
        ),
        pytest.param(
            {"conntrack": Conntrack(udp_timeout=MINUS)},
            f'{CONNTRACK}.UDPTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="conntrack-udp",
        ),
        pytest.param(
            {"conntrack": Conntrack(udp_stream_timeout=MINUS)},
            f'{CONNTRACK}.UDPStreamTimeout: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="conntrack-udp-stream",
        ),
        pytest.param(
            {"oom_score_adj": -1001},
            f"{P}.KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: -1001: must be within"
            " the range [-1000, 1000]",
            id="oom-score",
        ),
        pytest.param(
            {"mode": "x"},
            f'{P}.Mode.ProxyMode: Invalid value: "x": must be iptables, ipvs, nftables,'
            " userspace or blank"
            f" {BLANK}",
            id="mode",
        ),
        pytest.param(
            {"mode": "IPTables"},
            f'{P}.Mode.ProxyMode: Invalid value: "IPTables": must be iptables, ipvs, nftables,'
            f" userspace or blank {BLANK}",
            id="mode-in-capitals",
        ),
        pytest.param(
            {"mode": "kernelspace"},
            f'{P}.Mode.ProxyMode: Invalid value: "kernelspace": must be iptables, ipvs, nftables,'
            f" userspace or blank {BLANK}; it has always been for Windows nodes only: on Linux use"
            " nftables",
            id="a-mode-that-was-removed",
        ),
        pytest.param(
            {"client_connection": ClientConnection(burst=-1)},
            f"{P}.ClientConnection.Burst: Invalid value: -1: {NOT_NEGATIVE}",
            id="burst",
        ),
        pytest.param(
            {"client_connection": ClientConnection(burst=0)},
            f"{P}.ClientConnection.Burst: Invalid value: 0: must be greater than 0 when qps is"
            " greater than 0",
            id="no-burst-with-a-limit",
        ),
        pytest.param(
            {"config_sync_period": MINUS},
            f'{P}.ConfigSyncPeriod: Invalid value: "-1s": must be greater than 0',
            id="config-sync-period",
        ),
        pytest.param(
            {"nftables": NFTables(sync_period=Duration(), min_sync_period=Duration())},
            f'{P}.SyncPeriod: Invalid value: "0s": must be greater than 0',
            id="sync-period",
        ),
        pytest.param(
            {"nftables": NFTables(min_sync_period=MINUS)},
            f'{P}.MinSyncPeriod: Invalid value: "-1s": {NOT_NEGATIVE}',
            id="min-sync-period",
        ),
        pytest.param(
            {"nftables": NFTables(sync_period=of_seconds(1), min_sync_period=of_seconds(2))},
            f'{P}.SyncPeriod: Invalid value: "2s": must be greater than or equal to'
            f" {P}.MinSyncPeriod",
            id="sync-period-below-its-minimum",
        ),
        pytest.param(
            {"nftables": NFTables(sync_period=of_seconds(9000), min_sync_period=of_seconds(7200))},
            f'{P}.MinSyncPeriod: Invalid value: "2h0m0s": must be at most 1h0m0s, the period of'
            " full syncs",
            id="min-sync-period-above-an-hour",
        ),
        pytest.param(
            {"bind_address": "foo"},
            f'{P}.BindAddress: Invalid value: "foo": not a valid textual representation of an IP'
            " address",
            id="bind-address",
        ),
        pytest.param(
            {"healthz_bind_address": "foo"},
            f'{P}.HealthzBindAddress: Invalid value: "foo": must be IP:port',
            id="healthz-address",
        ),
        pytest.param(
            {"healthz_bind_address": "foo:80"},
            f'{P}.HealthzBindAddress: Invalid value: "foo": must be a valid IP',
            id="healthz-ip",
        ),
        pytest.param(
            {"metrics_bind_address": "10.0.0.1:0"},
            f'{P}.MetricsBindAddress: Invalid value: "0": must be a valid port',
            id="metrics-port-0",
        ),
        pytest.param(
            {"metrics_bind_address": "10.0.0.1:http"},
            f'{P}.MetricsBindAddress: Invalid value: "http": must be a valid port',
            id="metrics-port",
        ),
        pytest.param(
            {"metrics_bind_address": "10.0.0.1:65536"},
            f'{P}.MetricsBindAddress: Invalid value: "65536": must be a valid port',
            id="metrics-port-too-high",
        ),
        pytest.param(
            {"metrics_bind_address": ""},
            f'{P}.MetricsBindAddress: Invalid value: "": must be IP:port',
            id="no-metrics-address",
        ),
        pytest.param(
            {"node_port_addresses": ("primary", "primary")},
            f'{P}.NodePortAddresses[1]: Duplicate value: "primary"',
            id="a-keyword-twice",
        ),
        pytest.param(
            {"node_port_addresses": ("primary", "10.0.0.0/8", "bogus")},
            f'{P}.NodePortAddresses[2]: Invalid value: "bogus": must be a valid CIDR or one of the'
            " keywords 'primary', 'localhost', 'all'",
            id="no-keyword",
        ),
        pytest.param(
            {"show_hidden_metrics_for_version": "1.2"},
            f'{P}.ShowHiddenMetricsForVersion: Invalid value: "1.2": invalid'
            ' showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: "1.2": must'
            f" be omitted or have the value '{PREVIOUS}'; only the previous minor version is"
            " allowed",
            id="hidden-metrics",
        ),
        pytest.param(
            {"detect_local_mode": "Foo"},
            f'{P}.DetectLocalMode: Unsupported value: "Foo": supported values: "ClusterCIDR",'
            ' "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix", ""',
            id="local-mode",
        ),
        pytest.param(
            {"detect_local_mode": "BridgeInterface"},
            f'{DETECT}.InterfaceName: Invalid value: "": must not be empty',
            id="no-bridge",
        ),
        pytest.param(
            {"detect_local_mode": "InterfaceNamePrefix"},
            f'{DETECT}.InterfacePrefix: Invalid value: "": must not be empty',
            id="no-prefix-of-names",
        ),
        pytest.param(
            {"cluster_cidr": "a"},
            f'{DETECT}.ClusterCIDRs[0]: Invalid value: "a": {BLOCK}',
            id="no-cluster-cidr",
        ),
        pytest.param(
            {"cluster_cidr": "10.0.0.0/8, fd00::/8"},
            f'{DETECT}.ClusterCIDRs[1]: Invalid value: " fd00::/8": {BLOCK}; remove the blanks'
            " around it",
            id="a-blank-after-the-comma",
        ),
        pytest.param(
            {"cluster_cidr": "10.0.0.0/8,11.0.0.0/8"},
            f'{DETECT}.ClusterCIDRs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: {PAIR}',
            id="two-cluster-cidrs-of-a-family",
        ),
        pytest.param(
            {"cluster_cidr": "10.0.0.0/8,fd00::/8,a"},
            f'{DETECT}.ClusterCIDRs: Invalid value: ["10.0.0.0/8","fd00::/8","a"]: {PAIR}',
            id="three-cluster-cidrs",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], expected: str) -> None:
    config = replace(effective(KubeProxyConfiguration()), **changes)
    assert f"failed validate: {expected}" == refusal(config)


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_the_iptables_bit_is_checked_in_every_mode(mode: str) -> None:
    config = KubeProxyConfiguration(mode=mode, iptables=IPTables(masquerade_bit=32))
    assert "KubeProxyIPTablesConfiguration" in refusal(effective(config))


def test_without_its_gate_ipvs_is_no_mode() -> None:
    gates = Gates(Gates().on - {"KubeProxyIPVS"})
    expected = (
        f'failed validate: {P}.Mode.ProxyMode: Invalid value: "ipvs": must be iptables,'
        f" nftables, userspace or blank {BLANK}"
    )
    assert expected == refusal(effective(KubeProxyConfiguration(mode="ipvs")), gates)


def test_all_errors_come_together_in_order() -> None:
    config = KubeProxyConfiguration(
        mode="ipvs",
        detect_local_mode="Foo",
        show_hidden_metrics_for_version="1.2",
        node_port_addresses=("bogus",),
        metrics_bind_address="foo",
        healthz_bind_address="foo",
        bind_address="foo",
        config_sync_period=MINUS,
        client_connection=ClientConnection(burst=-1),
        oom_score_adj=2000,
        conntrack=Conntrack(min=-1),
        ipvs=IPVS(udp_timeout=MINUS, sync_period=MINUS, min_sync_period=of_seconds(-2)),
        iptables=IPTables(masquerade_bit=32),
    )
    text = refusal(effective(config))
    paths = [item.partition(":")[0] for item in text.removesuffix("]").split(f"{P}.")[1:]]
    assert text.startswith(f"failed validate: [{P}.")
    assert text.endswith("]")
    assert paths == [
        "KubeProxyIPTablesConfiguration.MasqueradeBit",
        "KubeProxyIPVSConfiguration.UDPTimeout",
        "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration.Min",
        "KubeProxyLinuxConfiguration.OOMScoreAdj",
        "ClientConnection.Burst",
        "ConfigSyncPeriod",
        "SyncPeriod",
        "MinSyncPeriod",
        "BindAddress",
        "HealthzBindAddress",
        "MetricsBindAddress",
        "NodePortAddresses[0]",
        "ShowHiddenMetricsForVersion",
        "DetectLocalMode",
    ]
