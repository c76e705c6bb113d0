import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeproxy.config.decode import decode
from kubeproxy.config.defaults import with_defaults, with_platform_defaults
from kubeproxy.config.document import to_document, to_yaml
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import complete
from kubeproxy.config.types import (
    IPVS,
    Conntrack,
    FormatOptions,
    IPTables,
    KubeProxyConfiguration,
    Logging,
    NFTables,
    OutputRouting,
    TrafficSettings,
    VModuleItem,
)
from kubeproxy.config.values import Duration, Quantity
from kubeproxy.dataplane.modes import MODES

DEFAULT = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 5
clusterCIDR: ""
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 1s
  syncPeriod: 30s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 5s
  format: text
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: iptables
nftables:
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: -999
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
"""


def config_of(*arguments: str) -> KubeProxyConfiguration:
    return complete(parse_flags(arguments), None, MODES).config


def test_the_default_of_iptables_mode_is_upstreams() -> None:
    assert to_yaml(config_of("--proxy-mode=iptables")) == DEFAULT


@pytest.mark.parametrize("mode", ["nftables", "iptables", "ipvs"])
def test_only_the_active_mode_shows_its_sync_periods(mode: str) -> None:
    document = yaml.safe_load(to_yaml(config_of(f"--proxy-mode={mode}")))
    shown = {
        name for name in ("nftables", "iptables", "ipvs") if document[name]["syncPeriod"] != "0s"
    }
    assert {mode} == shown


def test_what_says_nothing_is_left_out_and_what_says_something_is_not() -> None:
    config = KubeProxyConfiguration(
        feature_gates={"A": True},
        logging=Logging(
            flush_frequency=7,
            vmodule=(VModuleItem("a", 1),),
            options=FormatOptions(text=OutputRouting(split_stream=True)),
        ),
        windows_run_as_service=True,
    )
    document = to_document(config)
    assert document["featureGates"] == {"A": True}
    assert document["windowsRunAsService"] is True
    assert document["logging"] == {
        "format": "text",
        "flushFrequency": 7,
        "verbosity": 0,
        "vmodule": [{"filePattern": "a", "verbosity": 1}],
        "options": {
            "text": {"splitStream": True, "infoBufferSize": "0"},
            "json": {"infoBufferSize": "0"},
        },
    }


def test_the_document_begins_with_its_kind_and_is_json() -> None:
    document = to_document(config_of("--kube-api-qps=2.5"))
    assert list(document)[:2] == ["kind", "apiVersion"]
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("text", ["true", "12", "1.37", "null", "~", "", "1e3", "- a", "é: \n"])
def test_texts_that_look_like_something_else_are_quoted(text: str) -> None:
    written = to_yaml(KubeProxyConfiguration(hostname_override=text))
    assert text == decode(written)[0].hostname_override


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
POSITIVE = st.integers(1, 2**40).map(Duration)
ANY_DURATION = st.integers(0, 2**50).map(Duration)
CONFIGS = st.builds(
    KubeProxyConfiguration,
    mode=st.sampled_from(["iptables", "nftables", "ipvs"]),
    feature_gates=st.dictionaries(WORDS, st.booleans(), max_size=2),
    hostname_override=WORDS,
    node_port_addresses=st.lists(WORDS, max_size=2).map(tuple),
    logging=st.builds(
        Logging,
        flush_frequency=st.one_of(POSITIVE, st.integers(1, 2**40)),
        verbosity=st.integers(0, 2**32 - 1),
        vmodule=st.lists(st.builds(VModuleItem, WORDS, st.integers(0, 9)), max_size=2).map(tuple),
        options=st.builds(
            FormatOptions,
            text=st.builds(OutputRouting, st.booleans(), st.just(Quantity("4k", 4000))),
        ),
    ),
    iptables=st.builds(
        IPTables,
        st.integers(-(2**31), 2**31 - 1),
        st.booleans(),
        st.booleans(),
        POSITIVE,
        POSITIVE,
    ),
    ipvs=st.builds(
        IPVS, POSITIVE, ANY_DURATION, WORDS, st.lists(WORDS, max_size=2).map(tuple), st.booleans()
    ),
    nftables=st.builds(NFTables, st.integers(0, 31), st.booleans(), POSITIVE, POSITIVE),
    conntrack=st.builds(
        Conntrack, st.integers(0, 9), st.integers(0, 9), ANY_DURATION, ANY_DURATION
    ),
)


def test_fields_of_ours_are_written_when_they_say_something() -> None:
    config = KubeProxyConfiguration(
        traffic=TrafficSettings("service"), rules_page="all", status_page="none", status_socket=""
    )
    ours = {
        "traffic": {"metrics": "service", "seriesLimit": 10_000},
        "rulesPage": "all",
        "statusPage": "none",
        "statusSocket": "",
    }
    assert ours.items() <= to_document(config).items()
    assert ours.keys().isdisjoint(to_document(KubeProxyConfiguration()))


@settings(max_examples=40)
@given(CONFIGS)
def test_what_is_written_is_read_back(given_config: KubeProxyConfiguration) -> None:
    config, _ = with_platform_defaults(with_defaults(given_config), MODES)
    text = to_yaml(config)
    again, _ = with_platform_defaults(with_defaults(decode(text)[0]), MODES)
    assert text == to_yaml(again)
    assert (config.sync_period, config.min_sync_period) == (
        again.sync_period,
        again.min_sync_period,
    )
    assert config.logging == again.logging
    assert config.conntrack == again.conntrack
