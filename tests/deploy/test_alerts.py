"""Each alert fires when it should, with words that fit, and stays quiet when it should not."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.promtool import expect_firing, promtool, run_test, write_rules
from deploy.test_monitoring import RULES

SYNC = "kubeproxy_sync_proxy_rules_"
NODE = 'job="kube-proxy",instance="kestrel"'
IPV4 = f'{NODE},ip_family="IPv4"'
UP = f"up{{{NODE}}}"
LAST = f"{SYNC}last_timestamp_seconds{{{IPV4}}}"
QUEUED = f"{SYNC}last_queued_timestamp_seconds{{{IPV4}}}"
REFUSED = f"{SYNC}nftables_sync_failures_total{{{IPV4}}}"
RESTORES = f"{SYNC}iptables_restore_failures_total{{{IPV4}}}"
FULL = f"kubeproxy_nftables_affinity_full_total{{{IPV4}}}"
PORTS = f"kubeproxy_service_ports_failed{{{IPV4}}}"
FOREIGN = f'kubeproxy_foreign_changes_total{{{IPV4},program="kube-proxy"}}'
CONNTRACK = f"kubeproxy_conntrack_entries{{{NODE}}}"
CONNTRACK_LIMIT = f"kubeproxy_conntrack_entries_limit{{{NODE}}}"
FORWARDS = f"kubeproxy_node_forwards_packets{{{IPV4}}}"
NO_NODE = f"kubeproxy_node_object_missing{{{NODE}}}"
NO_ADDRESS = f"kubeproxy_node_address_missing{{{IPV4}}}"
HEARD = f"kubeproxy_source_last_received_timestamp_seconds{{{NODE}}}"
NOBODY = f"kubeproxy_service_ports_without_endpoint{{{IPV4}}}"
CONFLICTS = f"kubeproxy_address_conflicts{{{IPV4}}}"
IGNORED = f"kubeproxy_ignored_parts{{{NODE}}}"
ONE = {"job": "kube-proxy", "instance": "kestrel"}
UNHEALTHY = f'kubeproxy_proxy_livez_total{{{NODE},code="503"}}'
UNSERVED = f"{SYNC}no_local_endpoints_total{{{IPV4},traffic_policy="
REQUESTS = f"rest_client_requests_total{{{NODE},code="
PROGRAMMING = f"kubeproxy_network_programming_duration_seconds_bucket{{{IPV4},le="
OF_CART = 'namespace="shop",service="cart",port="http",protocol="TCP",ip_family="IPv4"'
LIMIT = f'kubeproxy_ejection_limit_reached{{{{job="kube-proxy",instance="{{}}",{OF_CART}}}}}'
FAST = f'kubeproxy_fast_path{{{{{NODE},reason="{{}}"}}}}'
LEFT_OUT = f"kubeproxy_ejected_endpoints{{{NODE},{OF_CART}}}"
FAMILY = {"job": "kube-proxy", "instance": "kestrel", "ip_family": "IPv4"}
# Two minutes and a half of a process, then five until the kubelet starts the next.
RESTARTS = " ".join(["{0} stale _x9"] * 6)
NEVER = RESTARTS.format("0x4")
DYING = RESTARTS.format("0 0 1 4 7")


class Case(NamedTuple):
    """An alert meets series: after so many minutes it fires with these labels, or never.

    Where it fires, it does so for as long as `lasts` says, without a break.
    """

    alert: str
    minutes: int
    series: Mapping[str, str]
    labels: Mapping[str, str] | None = None
    summary: str = ""
    lasts: int = 1


def slow(percent: int) -> dict[str, str]:
    """Changes of endpoints, of which so many took more than 30 and less than 60 seconds."""
    counts = {"0.25": 0, "30": 100 - percent, "60": 100, "+Inf": 100}
    return {f'{PROGRAMMING}"{le}"}}': f"0+{count}x80" for le, count in counts.items()}


def requests(failing: int) -> dict[str, str]:
    """Requests to the API server, of which so many in a hundred fail."""
    counts = {"200": 100 - failing, "<error>": failing}
    return {f'{REQUESTS}"{code}"}}': f"0+{count}x80" for code, count in counts.items()}


FIRES = {
    "none-is-scraped": Case("KubeProxyAbsent", 16, {UP: "0x40"}, {}, "No kube-proxy is scraped"),
    "one-is-not-scraped": Case(
        "KubeProxyDown",
        16,
        {UP: "0x40"},
        {"job": "kube-proxy", "instance": "kestrel"},
        "kube-proxy of kestrel cannot be scraped",
    ),
    "the-first-sync-fails": Case(
        "KubeProxyNeverSynced",
        6,
        {LAST: "0x40", QUEUED: "1x40"},
        FAMILY,
        "kube-proxy of kestrel has not programmed its IPv4 rules since it started",
    ),
    "the-first-sync-fails-and-the-kubelet-restarts-it": Case(
        "KubeProxyNeverSynced",
        6,
        {LAST: NEVER},
        FAMILY,
        "kube-proxy of kestrel has not programmed its IPv4 rules since it started",
        lasts=35,
    ),
    "a-change-is-not-synced": Case(
        "KubeProxyNotSyncing",
        11,
        {LAST: "30x60", QUEUED: "30x8 300x60"},
        FAMILY,
        "kube-proxy of kestrel does not update its IPv4 rules",
    ),
    "transactions-are-refused-from-the-first-scrape-on": Case(
        "KubeProxyNftablesSyncFails",
        7,
        {REFUSED: "0 7x40"},
        FAMILY,
        "The kernel of kestrel rejects IPv4 transactions of kube-proxy",
    ),
    "restores-fail-from-the-first-scrape-on": Case(
        "KubeProxyIptablesRestoreFails",
        7,
        {RESTORES: "0 7x40"},
        FAMILY,
        "iptables-restore of kube-proxy fails on kestrel (IPv4)",
    ),
    "no-room-for-more-clients": Case(
        "KubeProxyAffinityFull",
        7,
        {FULL: "0 700x40"},
        FAMILY,
        "kube-proxy of kestrel has no room for more clients with session affinity (IPv4)",
    ),
    "ports-are-refused": Case(
        "KubeProxyServicePortsFailed",
        16,
        {PORTS: "3x40"},
        FAMILY,
        "3 service ports cannot be programmed on kestrel (IPv4)",
    ),
    "the-fast-path-does-not-work": Case(
        "KubeProxyFastPathOff",
        16,
        {FAST.format("self-test"): "0x40"},
        {"job": "kube-proxy", "instance": "kestrel", "reason": "self-test"},
        "The fast path is off on kestrel (self-test)",
    ),
    "too-many-endpoints-fail-on-a-node": Case(
        "KubeProxyTooManyEndpointsFail",
        12,
        {LIMIT.format("kestrel"): "1x60", LIMIT.format("heron"): "0x60"},
        {"namespace": "shop", "service": "cart"},
        "Too many endpoints of shop/cart fail",
    ),
    "too-many-endpoints-fail-now-and-then": Case(
        "KubeProxyTooManyEndpointsFail",
        12,
        {LIMIT.format("kestrel"): " ".join(["1 _x3"] * 40)},
        {"namespace": "shop", "service": "cart"},
        "Too many endpoints of shop/cart fail",
        lasts=20,
    ),
    "it-calls-itself-unhealthy": Case(
        "KubeProxyUnhealthy",
        20,
        {UNHEALTHY: "0x4 1+3x60"},
        {"job": "kube-proxy", "instance": "kestrel", "code": "503"},
        "kube-proxy of kestrel is unhealthy",
    ),
    "it-calls-itself-unhealthy-and-the-kubelet-restarts-it": Case(
        "KubeProxyUnhealthy",
        20,
        {UNHEALTHY: DYING},
        {"job": "kube-proxy", "instance": "kestrel", "code": "503"},
        "kube-proxy of kestrel is unhealthy",
        lasts=25,
    ),
    "a-tenth-of-the-changes-takes-long": Case(
        "KubeProxyProgrammingSlow",
        20,
        slow(10),
        {"instance": "kestrel", "ip_family": "IPv4"},
        "On kestrel changes of endpoints take 57s to be programmed",
    ),
    "two-proxies": Case(
        "KubeProxyRulesFought",
        11,
        {FOREIGN: "0+20x80"},
        {"instance": "kestrel", "ip_family": "IPv4", "program": "kube-proxy"},
        "kube-proxy changes the IPv4 rules of kube-proxy on kestrel again and again",
    ),
    "no-room-for-connections": Case(
        "KubeProxyConntrackFull",
        3,
        {CONNTRACK: "1000x40", CONNTRACK_LIMIT: "1000x40"},
        ONE,
        "Connection tracking is full on kestrel",
    ),
    "little-room-for-connections": Case(
        "KubeProxyConntrackFilling",
        6,
        {CONNTRACK: "950x40", CONNTRACK_LIMIT: "1000x40"},
        ONE,
        "Connection tracking on kestrel is filled to 95%",
    ),
    "the-kernel-forwards-nothing": Case(
        "KubeProxyNotForwarding",
        6,
        {FORWARDS: "0x40"},
        FAMILY,
        "The kernel of kestrel does not forward IPv4 packets",
    ),
    "a-wrong-hostname": Case(
        "KubeProxyNodeMissing",
        11,
        {NO_NODE: "1x40"},
        ONE,
        "The API server has no Node of the name that kube-proxy of kestrel uses",
    ),
    "an-address-of-nobody": Case(
        "KubeProxyNodeAddressMissing",
        11,
        {NO_ADDRESS: "1x40"},
        FAMILY,
        "No interface of kestrel has the IPv4 address of its Node",
    ),
    "a-server-that-says-nothing": Case(
        "KubeProxyServerSilent",
        20,
        {HEARD: "0x80"},
        ONE,
        "kube-proxy of kestrel has received nothing from the API server for 20m 0s",
    ),
    "nobody-serves": Case(
        "KubeProxyNothingServes",
        61,
        {NOBODY: "2x160"},
        {},
        "2 service ports have no endpoint that can serve",
    ),
    "two-claim-an-address": Case(
        "KubeProxyConfusedObjects",
        61,
        {CONFLICTS: "1x160", IGNORED: "0x160"},
        {},
        "Some Services are not served as they ask",
    ),
    "no-endpoint-on-the-node": Case(
        "KubeProxyNoLocalEndpoints",
        31,
        {f'{UNSERVED}"internal"}}': "2x80"},
        {"traffic_policy": "internal"},
        "Services with internalTrafficPolicy Local have no endpoint on some nodes",
    ),
    "the-api-server-fails": Case(
        "KubeProxyApiErrors",
        20,
        requests(failing=20),
        {"instance": "kestrel"},
        "More than a tenth of the requests of kestrel to the API server fail",
    ),
}
QUIET = {
    "one-of-two-is-scraped": Case(
        "KubeProxyAbsent", 30, {UP: "0x80", UP.replace("kestrel", "heron"): "1x80"}
    ),
    "an-update": Case("KubeProxyDown", 30, {UP: "1x8 0x20 1x40"}),
    "a-start-that-takes-its-time": Case("KubeProxyNeverSynced", 5, {LAST: "0x8 270x40"}),
    "a-restart": Case("KubeProxyNeverSynced", 20, {LAST: "30x10 stale _x4 0 0 600x40"}),
    "nothing-changed-for-long": Case(
        "KubeProxyNotSyncing", 60, {LAST: "31x120", QUEUED: "30x120"}
    ),
    "changes-without-end-that-are-synced": Case(
        "KubeProxyNotSyncing", 60, {LAST: "1+30x120", QUEUED: "2+30x120"}
    ),
    "never-synced-has-its-own": Case("KubeProxyNotSyncing", 60, {LAST: "0x120", QUEUED: "1x120"}),
    "one-transaction-is-refused": Case("KubeProxyNftablesSyncFails", 20, {REFUSED: "0x20 1x40"}),
    "the-ports-that-are-refused-have-their-own": Case(
        "KubeProxyNftablesSyncFails", 20, {REFUSED: "0+2x80", PORTS: "1x80"}
    ),
    "the-lock-was-held-for-a-while": Case(
        "KubeProxyIptablesRestoreFails", 20, {RESTORES: "0x10 2x40"}
    ),
    "few-clients-found-no-room": Case("KubeProxyAffinityFull", 40, {FULL: "0 9x160"}),
    "too-many-endpoints-failed-for-a-while": Case(
        "KubeProxyTooManyEndpointsFail", 30, {LIMIT.format("kestrel"): "0x10 1x7 0x100"}
    ),
    "few-endpoints-fail": Case(
        "KubeProxyTooManyEndpointsFail",
        30,
        {LIMIT.format("kestrel"): "0x130", LEFT_OUT: "1x130"},
    ),
    "all-ports-are-programmed": Case("KubeProxyServicePortsFailed", 30, {PORTS: "1x10 0x80"}),
    "it-was-unhealthy-for-two-minutes": Case(
        "KubeProxyUnhealthy", 20, {UNHEALTHY: "0x10 3+3x4 15x80"}
    ),
    "changes-are-quick": Case("KubeProxyProgrammingSlow", 30, slow(0)),
    "a-load-balancers-address-without-an-endpoint": Case(
        "KubeProxyNoLocalEndpoints", 40, {f'{UNSERVED}"external"}}': "2x80"}
    ),
    "somebody-flushed-the-rules": Case("KubeProxyRulesFought", 30, {FOREIGN: "0x10 3x70"}),
    "connections-come-and-go": Case(
        "KubeProxyConntrackFull", 30, {CONNTRACK: "900x80", CONNTRACK_LIMIT: "1000x80"}
    ),
    "a-kernel-without-a-limit": Case(
        "KubeProxyConntrackFull", 30, {CONNTRACK: "9x80", CONNTRACK_LIMIT: "0x80"}
    ),
    "a-table-with-room": Case(
        "KubeProxyConntrackFilling", 30, {CONNTRACK: "900x80", CONNTRACK_LIMIT: "1000x80"}
    ),
    "it-forwards": Case("KubeProxyNotForwarding", 30, {FORWARDS: "1x80"}),
    "a-node-that-registers-late": Case("KubeProxyNodeMissing", 30, {NO_NODE: "1x12 0x80"}),
    "an-address-that-comes-late": Case(
        "KubeProxyNodeAddressMissing", 30, {NO_ADDRESS: "1x12 0x80"}
    ),
    "a-bookmark-every-minute": Case("KubeProxyServerSilent", 60, {HEARD: "0+30x160"}),
    "pods-that-start": Case("KubeProxyNothingServes", 90, {NOBODY: "2x100 0x100"}),
    "objects-that-are-corrected": Case(
        "KubeProxyConfusedObjects", 90, {CONFLICTS: "0x200", IGNORED: "3x100 0x100"}
    ),
    "a-fast-path-that-nobody-wants": Case(
        "KubeProxyFastPathOff", 30, {FAST.format("disabled"): "0x120"}
    ),
    "a-fast-path-that-starts-or-is-on": Case(
        "KubeProxyFastPathOff", 30, {FAST.format("starting"): "0x2", FAST.format(""): "1x120"}
    ),
    "few-requests-fail": Case("KubeProxyApiErrors", 30, requests(failing=5)),
}


def test_the_rules_are_valid(tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(write_rules(tmp_path)))


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in FIRES.items()])
def test_it_fires(case: Case, tmp_path: Path) -> None:
    (rule,) = (rule for rule in RULES if rule.alert == case.alert)
    assert case.labels is not None
    annotations = {**rule.annotations, "summary": case.summary}
    alert = {"exp_labels": {**rule.labels, **case.labels}, "exp_annotations": annotations}
    expected = [
        {"alertname": case.alert, "eval_time": f"{minute}m", "exp_alerts": [alert]}
        for minute in range(case.minutes, case.minutes + case.lasts)
    ]
    run_test(tmp_path, case.series, alert_rule_test=expected)


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in QUIET.items()])
def test_it_does_not_fire(case: Case, tmp_path: Path) -> None:
    expected = [
        {"alertname": case.alert, "eval_time": f"{minute}m", "exp_alerts": []}
        for minute in range(case.minutes + 1)
    ]
    run_test(tmp_path, case.series, alert_rule_test=expected)


def test_every_alert_is_tried_both_ways() -> None:
    every = [rule.alert for rule in RULES]
    for cases in (FIRES, QUIET):
        assert set(every) == {case.alert for case in cases.values()}


def test_what_promtool_objects_to_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="KubeProxyDown"):
        expect_firing(tmp_path, {UP: "1x40"}, 20, ["KubeProxyDown"])
