import json
from unittest.mock import ANY

import pytest
from msgspec.structs import replace

from kubeproxy.config.decode import decode
from kubeproxy.config.errors import ConfigError, Level, Notice
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
    Userspace,
    VModuleItem,
    Winkernel,
)
from kubeproxy.config.values import Duration, Quantity, of_seconds

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

EVERYTHING = f"""\
{HEAD}
featureGates: {{A: true, B: false}}
clientConnection: {{kubeconfig: /k, acceptContentTypes: a, contentType: b, qps: 1.5, burst: 7}}
logging:
  format: json
  flushFrequency: 7s
  verbosity: 3
  vmodule: [{{filePattern: x*, verbosity: 4}}]
  options:
    text: {{splitStream: true, infoBufferSize: 4k}}
    json: {{splitStream: true, infoBufferSize: 512}}
hostnameOverride: Node
bindAddress: 10.0.0.1
healthzBindAddress: 10.0.0.1:1
metricsBindAddress: 10.0.0.1:2
bindAddressHardFail: true
enableProfiling: true
showHiddenMetricsForVersion: "1.37"
mode: ipvs
iptables:
  {{masqueradeBit: 1, masqueradeAll: true, localhostNodePorts: false, syncPeriod: 1s,
   minSyncPeriod: 2s}}
ipvs:
  {{syncPeriod: 3s, minSyncPeriod: 4s, scheduler: lc, excludeCIDRs: [10.0.0.0/8], strictARP: yes,
   tcpTimeout: 5s, tcpFinTimeout: 6s, udpTimeout: 7s}}
nftables: {{masqueradeBit: 2, masqueradeAll: true, syncPeriod: 8s, minSyncPeriod: 9s}}
winkernel:
  {{networkName: net, sourceVip: v, enableDSR: true, rootHnsEndpointName: r,
   forwardHealthCheckVip: true}}
detectLocalMode: BridgeInterface
detectLocal: {{bridgeInterface: br0, interfaceNamePrefix: veth}}
clusterCIDR: 10.0.0.0/8,fd00::/8
nodePortAddresses: [primary, 10.0.0.0/8]
oomScoreAdj: -500
conntrack:
  {{maxPerCore: 1, min: 2, tcpEstablishedTimeout: 1m, tcpCloseWaitTimeout: 2m,
   tcpBeLiberal: true, udpTimeout: 3m, udpStreamTimeout: 4m}}
configSyncPeriod: 5m
portRange: 1-2
udpIdleTimeout: 6s
userspace: {{workers: 2, portMap: ["127.0.0.1:1=a/b"]}}
windowsRunAsService: true
traffic: {{metrics: service, seriesLimit: 6}}
rulesPage: all
statusPage: none
statusSocket: /run/own.sock
"""


def test_every_field_is_read() -> None:
    expected = KubeProxyConfiguration(
        feature_gates={"A": True, "B": False},
        client_connection=ClientConnection("/k", "a", "b", 1.5, 7),
        logging=Logging(
            "json",
            of_seconds(7),
            3,
            (VModuleItem("x*", 4),),
            FormatOptions(
                OutputRouting(True, Quantity("4k", 4000)),
                OutputRouting(True, Quantity("512", 512)),
            ),
        ),
        hostname_override="Node",
        bind_address="10.0.0.1",
        healthz_bind_address="10.0.0.1:1",
        metrics_bind_address="10.0.0.1:2",
        bind_address_hard_fail=True,
        enable_profiling=True,
        show_hidden_metrics_for_version="1.37",
        mode="ipvs",
        iptables=IPTables(1, True, False, of_seconds(1), of_seconds(2)),
        ipvs=IPVS(
            of_seconds(3),
            of_seconds(4),
            "lc",
            ("10.0.0.0/8",),
            True,
            of_seconds(5),
            of_seconds(6),
            of_seconds(7),
        ),
        nftables=NFTables(2, True, of_seconds(8), of_seconds(9)),
        winkernel=Winkernel("net", "v", True, "r", True),
        detect_local_mode="BridgeInterface",
        detect_local=DetectLocal("br0", "veth"),
        cluster_cidr="10.0.0.0/8,fd00::/8",
        node_port_addresses=("primary", "10.0.0.0/8"),
        oom_score_adj=-500,
        conntrack=Conntrack(
            1, 2, of_seconds(60), of_seconds(120), True, of_seconds(180), of_seconds(240)
        ),
        config_sync_period=of_seconds(300),
        port_range="1-2",
        udp_idle_timeout=of_seconds(6),
        userspace=Userspace(2, ("127.0.0.1:1=a/b",)),
        windows_run_as_service=True,
        traffic=TrafficSettings("service", 6),
        rules_page="all",
        status_page="none",
        status_socket="/run/own.sock",
    )
    assert expected == decode(EVERYTHING)[0]


def test_an_empty_configuration_is_the_default() -> None:
    assert KubeProxyConfiguration() == decode(HEAD)[0]


def test_json_is_read_as_well() -> None:
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "conntrack": {"min": 5},
    }
    config = decode(json.dumps(document, indent="\t"))[0]
    assert KubeProxyConfiguration(mode="iptables", conntrack=Conntrack(min=5)) == config


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("mode: null", id="null"),
        pytest.param("mode: ~", id="a-tilde"),
        pytest.param("mode:", id="nothing"),
        pytest.param("iptables: null", id="a-section"),
        pytest.param("iptables: {masqueradeBit: null}", id="a-pointer-field"),
        pytest.param("nodePortAddresses: null", id="a-list"),
        pytest.param("featureGates: null", id="a-map"),
    ],
)
def test_null_is_absent(text: str) -> None:
    assert KubeProxyConfiguration() == decode(HEAD + text)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("conntrack: {min: 010}", 8, id="octal"),
        pytest.param("conntrack: {min: 0x1f}", 31, id="hexadecimal"),
        pytest.param("conntrack: {min: 1_000}", 1000, id="underscores"),
        pytest.param("conntrack: {min: 1.31072e+06}", 1310720, id="as-templates-write-it"),
        pytest.param("conntrack: {min: 14.0}", 14, id="whole-with-a-point"),
    ],
)
def test_numbers_are_yaml_numbers(text: str, expected: int) -> None:
    assert expected == decode(HEAD + text)[0].conntrack.min


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("5", 5.0, id="a-whole-number"),
        pytest.param("1e3", 1000.0, id="an-exponent"),
        pytest.param("1.5e+1", 15.0, id="an-exponent-with-a-sign"),
        pytest.param(".5", 0.5, id="a-fraction"),
        pytest.param("-.inf", float("-inf"), id="infinity"),
    ],
)
def test_floats_are_numbers_of_any_form(text: str, expected: float) -> None:
    config = decode(f"{HEAD}clientConnection: {{qps: {text}}}")[0]
    assert expected == config.client_connection.qps


@pytest.mark.parametrize("text", ["1:30", "2026-01-01", "fd00::/64", "10.0.0.0/8"])
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert text == decode(f"{HEAD}hostnameOverride: {text}")[0].hostname_override


@pytest.mark.parametrize("text", ["7", "7.0"])
def test_a_bare_flush_frequency_counts_nanoseconds(text: str) -> None:
    logging = decode(f"{HEAD}logging: {{flushFrequency: {text}}}")[0].logging
    assert logging.flush_frequency == 7
    assert Duration(7) == logging.flush_period


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "udpTimeoutMilliseconds: 250ms",
            ("udpTimeoutMilliseconds", 3, "1.10", "set conntrack.udpTimeout"),
            id="a-field-of-1.9",
        ),
        pytest.param(
            "resourceContainer: /kube-proxy",
            ("resourceContainer", 3, "1.16", "remove it: systemd"),
            id="a-field-of-1.15",
        ),
        pytest.param(
            "conntrack:\n  max: 5",
            ("conntrack.max", 4, "1.15", "set conntrack.maxPerCore and conntrack.min"),
            id="deep-inside",
        ),
    ],
)
def test_a_field_that_kubernetes_removed_is_skipped_with_a_warning(
    text: str, expected: tuple[str, int, str, str]
) -> None:
    config, (notice,) = decode(HEAD + text)
    assert KubeProxyConfiguration() == replace(config, port_range="")
    assert notice.level is Level.WARNING
    field, line, release, instead = expected
    assert notice.pairs == {"field": field, "line": line, "removedIn": release, "instead": ANY}
    assert str(notice.pairs["instead"]).startswith(instead)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('portRange: ""', id="as-upstream-writes-it"),
        pytest.param("conntrack: {max: null}", id="null"),
    ],
)
def test_a_removed_field_that_asks_for_nothing_is_not_worth_a_word(text: str) -> None:
    assert decode(HEAD + text)[1] == []


@pytest.mark.parametrize(
    ("text", "field", "lines"),
    [
        pytest.param("kind: KubeProxyConfiguration", "kind", [2, 3], id="the-kind"),
        pytest.param('mode: ipvs\nmode: "ipvs"', "mode", [3, 4], id="in-other-quotes"),
        pytest.param(
            "ipvs: {scheduler: a}\nipvs:\n  scheduler: a", "ipvs", [3, 4], id="a-section"
        ),
        pytest.param(
            "featureGates:\n  A: true\n  A: true", "featureGates.A", [4, 5], id="in-a-map"
        ),
    ],
)
def test_a_field_that_is_given_twice_alike_is_a_warning(
    text: str, field: str, lines: list[int]
) -> None:
    _, notices = decode(HEAD + text)
    message = "Config field is given twice, with the same value"
    expected = Notice(Level.WARNING, message, {"field": field, "lines": lines})
    assert [expected] == notices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("bogusField: 1", 'unknown field "bogusField" (line 3)', id="unknown"),
        pytest.param(
            "nftables: {masqueradall: true}",
            'unknown field "nftables.masqueradall" (line 3; did you mean'
            ' "nftables.masqueradeAll"?)',
            id="misspelled-deep-inside",
        ),
        pytest.param(
            "Mode: ipvs", 'unknown field "Mode" (line 3; did you mean "mode"?)', id="capitals"
        ),
        pytest.param(
            "\nstrictARP: true",
            'unknown field "strictARP" (line 4; did you mean "ipvs.strictARP"?)',
            id="known-in-another-place",
        ),
        pytest.param(
            "iptables: {kind: x}", 'unknown field "iptables.kind" (line 3)', id="kind-of-a-section"
        ),
        pytest.param(
            "mode: a\nmode: b",
            'duplicate field "mode" (lines 3 and 4, with different values)',
            id="set-twice",
        ),
        pytest.param(
            "mode:\nmode: b",
            'duplicate field "mode" (lines 3 and 4, with different values)',
            id="set-after-null",
        ),
        pytest.param(
            "featureGates: {A: true, A: false}",
            'duplicate field "featureGates.A" (lines 3 and 3, with different values)',
            id="set-twice-in-a-map",
        ),
        pytest.param(
            "ipvs:\n  scheduler: a\n  scheduler: b",
            'duplicate field "ipvs.scheduler" (lines 4 and 5, with different values)',
            id="set-twice-deep-inside",
        ),
        pytest.param(
            "conntrack: {min: abc}",
            'cannot unmarshal string into field "conntrack.min" of type int32 (line 3)',
            id="text-for-a-number",
        ),
        pytest.param(
            "conntrack: {min: true}",
            'cannot unmarshal bool into field "conntrack.min" of type int32 (line 3)',
            id="a-boolean-for-a-number",
        ),
        pytest.param(
            "conntrack: {min: 2147483648}",
            'cannot unmarshal number 2147483648 into field "conntrack.min" of type int32 (line 3)',
            id="too-large-a-number",
        ),
        pytest.param(
            "conntrack: {min: 1.5}",
            'cannot unmarshal number 1.5 into field "conntrack.min" of type int32 (line 3)',
            id="a-fraction-for-a-whole-number",
        ),
        pytest.param(
            "conntrack: {min: .inf}",
            'cannot unmarshal number .inf into field "conntrack.min" of type int32 (line 3)',
            id="infinity-for-a-whole-number",
        ),
        pytest.param(
            "conntrack: {min: !!int abc}",
            "yaml: line 3: cannot decode 'abc' as a !!int",
            id="a-tag-that-lies",
        ),
        pytest.param(
            "logging: {verbosity: -1}",
            'cannot unmarshal number -1 into field "logging.verbosity" of type uint32 (line 3)',
            id="a-negative-verbosity",
        ),
        pytest.param(
            "clientConnection: {qps: fast}",
            'cannot unmarshal string into field "clientConnection.qps" of type float32 (line 3)',
            id="text-for-a-float",
        ),
        pytest.param(
            "clientConnection: {qps: true}",
            'cannot unmarshal bool into field "clientConnection.qps" of type float32 (line 3)',
            id="a-boolean-for-a-float",
        ),
        pytest.param(
            "enableProfiling: 1",
            'cannot unmarshal number 1 into field "enableProfiling" of type bool (line 3)',
            id="a-number-for-a-boolean",
        ),
        pytest.param(
            "showHiddenMetricsForVersion: 1.37",
            'cannot unmarshal number 1.37 into field "showHiddenMetricsForVersion" of type string'
            " (line 3)",
            id="a-number-for-text",
        ),
        pytest.param(
            "configSyncPeriod: 5",
            'cannot unmarshal number 5 into field "configSyncPeriod" of type duration (line 3)',
            id="a-number-for-a-duration",
        ),
        pytest.param(
            "configSyncPeriod: 5x",
            'field "configSyncPeriod": time: unknown unit "x" in duration "5x" (line 3)',
            id="a-bad-duration",
        ),
        pytest.param(
            "logging: {flushFrequency: true}",
            'cannot unmarshal bool into field "logging.flushFrequency" of type duration (line 3)',
            id="a-boolean-for-a-duration",
        ),
        pytest.param(
            "logging: {options: {text: {infoBufferSize: true}}}",
            'cannot unmarshal bool into field "logging.options.text.infoBufferSize" of type'
            " quantity (line 3)",
            id="a-boolean-for-a-quantity",
        ),
        pytest.param(
            "mode: [a]",
            'cannot unmarshal array into field "mode" of type string (line 3)',
            id="a-list-for-text",
        ),
        pytest.param(
            "iptables: x",
            'cannot unmarshal string into field "iptables" of type object (line 3)',
            id="text-for-a-section",
        ),
        pytest.param(
            "featureGates: x",
            'cannot unmarshal string into field "featureGates" of type map[string]bool (line 3)',
            id="text-for-a-map",
        ),
        pytest.param(
            "featureGates: {A: x}",
            'cannot unmarshal string into field "featureGates.A" of type bool (line 3)',
            id="text-in-a-map",
        ),
        pytest.param(
            "featureGates: {A: }",
            'cannot unmarshal null into field "featureGates.A" of type bool (line 3)',
            id="null-in-a-map",
        ),
        pytest.param(
            "nodePortAddresses: {}",
            'cannot unmarshal object into field "nodePortAddresses" of type []string (line 3)',
            id="a-map-for-a-list",
        ),
        pytest.param(
            "nodePortAddresses: [a, 5]",
            'cannot unmarshal number 5 into field "nodePortAddresses[1]" of type string (line 3)',
            id="a-number-in-a-list",
        ),
        pytest.param(
            "logging: {vmodule: [x]}",
            'cannot unmarshal string into field "logging.vmodule[0]" of type object (line 3)',
            id="text-in-a-list-of-objects",
        ),
        pytest.param(
            "logging: {vmodule: x}",
            'cannot unmarshal string into field "logging.vmodule" of type []object (line 3)',
            id="text-for-a-list-of-objects",
        ),
        pytest.param("[1]: x", "a key is no string (line 3)", id="a-list-as-key"),
        pytest.param(
            "ipvs: &a\n  scheduler: *a",
            "yaml: line 4: the alias *a is part of itself",
            id="a-document-that-contains-itself",
        ),
        pytest.param("a: " + "[" * 9999, "yaml: line 3: it is nested too deeply", id="deep"),
        pytest.param(
            f"clientConnection: {{qps: 1{'0' * 399}}}",
            f'cannot unmarshal number 1{"0" * 399} into field "clientConnection.qps" of type'
            " float32 (line 3)",
            id="too-large-a-number-for-a-float",
        ),
        pytest.param(
            f"configSyncPeriod: {'9' * 1000}s",
            f'field "configSyncPeriod": time: invalid duration "{"9" * 1000}s" (line 3)',
            id="too-long-a-duration",
        ),
        pytest.param(
            "bogus: 1\nconntrack: {min: x}",
            '[unknown field "bogus" (line 3), cannot unmarshal string into field "conntrack.min"'
            " of type int32 (line 4)]",
            id="all-mistakes-at-once",
        ),
    ],
)
def test_fields_that_are_wrong_are_named(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(HEAD + text)
    assert f"failed to decode: {expected}" == str(caught.value)
