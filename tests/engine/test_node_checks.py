import pytest

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.errors import ConfigError, Level, Notice
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine.node_checks import restart_reason, start_notices

V4, V6 = Family.IPV4, Family.IPV6
BOTH = (V4, V6)
IP4, IP6 = "198.51.100.10", "2001:db8:aa::10"
KESTREL = NodeState("kestrel", ips=(IP4, "198.51.100.77", IP6), pod_cidrs=("10.64.3.0/24",))
NODE_CIDR = "--detect-local-mode=NodeCIDR"
DUAL = "kube-proxy running in dual-stack mode"
NO_FAST_PATH = "nftables.fastPath has no effect in this mode: all packets meet the rules"
HEALS_NOTHING = (
    "nftables.healing has no effect in this mode:"
    " connections to endpoints that fail are not healed"
)
NO_CLUSTER_CIDR = (
    "Detect-local-mode set to ClusterCIDR, but no cluster CIDR specified for primary IP family"
)


def config(*flags: str) -> KubeProxyConfiguration:
    return load(parse_flags(flags), MODES).config


def notices(
    node: NodeState | None, *flags: str, families: tuple[Family, ...] = BOTH
) -> list[Notice]:
    loaded = load(parse_flags(flags), MODES)
    return list(start_notices(loaded.config, loaded.gates, families, node))


@pytest.mark.parametrize(
    ("node", "families", "flags", "expected"),
    [
        pytest.param(
            KESTREL,
            BOTH,
            ["--cluster-cidr=10.64.0.0/14"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="all-is-known",
        ),
        pytest.param(
            NodeState("kestrel", ips=(IP6, IP4)),
            BOTH,
            ["--cluster-cidr=fd40::/48"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP6, IP4]},
                DUAL: {"primary ipFamily": "IPv6"},
            },
            id="the-first-address-says-which-family-is-primary",
        ),
        pytest.param(
            KESTREL,
            (V4,),
            ["--cluster-cidr=10.64.0.0/14"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                "kube-proxy running in single-stack mode": {"ipFamily": "IPv4"},
            },
            id="a-machine-with-one-family",
        ),
        pytest.param(
            NodeState("kestrel", ips=(IP4, IP6)),
            BOTH,
            ["--bind-address=2001:db8:aa::77", "--cluster-cidr=fd40::/48"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                DUAL: {"primary ipFamily": "IPv6"},
            },
            id="the-bind-address-makes-its-family-primary",
        ),
        pytest.param(
            KESTREL,
            BOTH,
            [],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                DUAL: {"primary ipFamily": "IPv4"},
                NO_CLUSTER_CIDR: {"ipFamily": "IPv4", "clusterCIDRs": []},
            },
            id="pods-cannot-be-recognised",
        ),
        pytest.param(
            KESTREL,
            BOTH,
            [
                "--cluster-cidr=10.64.0.0/14",
                "--proxy-mode=ipvs",
                "--nftables-healing=all",
                "--nodeport-addresses=primary",
            ],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                HEALS_NOTHING: {"mode": "ipvs", "parts": "all"},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="healing-in-a-mode-that-does-not-heal",
        ),
        pytest.param(
            KESTREL,
            BOTH,
            ["--cluster-cidr=10.64.0.0/14", "--proxy-mode=nftables", "--nftables-healing=all"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="healing-in-a-mode-that-heals",
        ),
        pytest.param(
            KESTREL,
            BOTH,
            [
                "--cluster-cidr=10.64.0.0/14",
                "--proxy-mode=iptables",
                "--nftables-fast-path",
                "--nodeport-addresses=primary",
            ],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                NO_FAST_PATH: {"mode": "iptables"},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="the-fast-path-in-a-mode-without-one",
        ),
        pytest.param(
            KESTREL,
            BOTH,
            ["--cluster-cidr=10.64.0.0/14", "--proxy-mode=nftables", "--nftables-fast-path"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4, IP6]},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="the-fast-path-in-a-mode-that-has-one",
        ),
        pytest.param(
            NodeState("kestrel", ips=(IP4,), pod_cidrs=("10.64.3.0/24",)),
            BOTH,
            [NODE_CIDR, f"--bind-address={IP4}"],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4]},
                DUAL: {"primary ipFamily": "IPv4"},
            },
            id="by-node-cidr",
        ),
        pytest.param(
            NodeState("kestrel", ips=(IP4,)),
            BOTH,
            [NODE_CIDR],
            {
                "Successfully retrieved NodeIPs": {"NodeIPs": [IP4]},
                DUAL: {"primary ipFamily": "IPv4"},
                "Detect-local-mode set to NodeCIDR, but no PodCIDR defined at node for primary IP"
                " family": {"ipFamily": "IPv4", "podCIDRs": []},
            },
            id="by-node-cidr-without-one",
        ),
    ],
)
def test_what_is_said_at_the_start(
    node: NodeState,
    families: tuple[Family, ...],
    flags: list[str],
    expected: dict[str, dict[str, object]],
) -> None:
    said = notices(node, *flags, families=families)
    assert expected == {notice.message: notice.pairs for notice in said}


def test_a_node_that_nobody_knows_is_assumed_to_be_loopback() -> None:
    messages = [notice.message for notice in notices(None, NODE_CIDR)]
    assert messages[0].startswith("Can't determine this node's IP, assuming loopback")
    assert DUAL in messages
    assert messages[-1].startswith("Detect-local-mode set to NodeCIDR")


def test_a_primary_family_that_the_machine_lacks_is_the_end() -> None:
    with pytest.raises(OperatorError, match='no support for primary IP family "IPv6"'):
        notices(NodeState("kestrel", ips=(IP6, IP4)), families=(V4,))


def test_pod_ranges_of_the_wrong_family_are_the_end() -> None:
    node = NodeState("kestrel", ips=(IP4,), pod_cidrs=("fd40::/64",))
    with pytest.raises(ConfigError, match=r"node\.spec\.podCIDRs contains only IPv6"):
        notices(node, NODE_CIDR)


@pytest.mark.parametrize(
    ("before", "now", "flags", "expected"),
    [
        pytest.param(None, None, [], "", id="never-known"),
        pytest.param(KESTREL, None, [], "it is being deleted", id="deleted"),
        pytest.param(
            None,
            NodeState("a", ips=("10.0.0.1",)),
            [],
            "its IPs changed from [] to ['10.0.0.1']",
            id="comes-late-with-addresses",
        ),
        pytest.param(None, NodeState("a"), [], "", id="comes-late-without-addresses"),
        pytest.param(
            KESTREL,
            NodeState("kestrel", ips=(IP6, IP4), pod_cidrs=("10.64.3.0/24",)),
            [],
            f"its IPs changed from ['{IP4}', '{IP6}'] to ['{IP6}', '{IP4}']",
            id="another-primary",
        ),
        pytest.param(
            NodeState("a", ips=("10.0.0.1", "10.0.0.2")),
            NodeState("a", ips=("10.0.0.1", "10.0.0.3")),
            [],
            "",
            id="another-second-address-of-the-family",
        ),
        pytest.param(
            NodeState("a", zone="east", ips=("10.0.0.1",)),
            NodeState("a", zone="west", ips=("10.0.0.1",), eligible=False),
            [],
            "",
            id="another-zone-and-a-taint",
        ),
        pytest.param(
            NodeState("a", pod_cidrs=("10.0.0.0/24",)),
            NodeState("a"),
            [],
            "",
            id="not-by-node-cidr",
        ),
        pytest.param(
            NodeState("a", pod_cidrs=("10.0.0.0/24",)),
            NodeState("a"),
            [NODE_CIDR],
            "its pod CIDRs changed from ['10.0.0.0/24'] to []",
            id="by-node-cidr",
        ),
        pytest.param(
            NodeState("a", pod_cidrs=("10.0.0.0/24",)),
            NodeState("a", pod_cidrs=("10.0.0.0/24",)),
            [NODE_CIDR],
            "",
            id="by-node-cidr-the-same",
        ),
        pytest.param(
            None,
            NodeState("a", pod_cidrs=("10.0.0.0/24",)),
            [NODE_CIDR],
            "its pod CIDRs changed from [] to ['10.0.0.0/24']",
            id="by-node-cidr-comes-late",
        ),
    ],
)
def test_what_calls_for_a_restart(
    before: NodeState | None, now: NodeState | None, flags: list[str], expected: str
) -> None:
    assert expected == restart_reason(before, now, config(*flags))


INCLUDES = "--nodeport-addresses includes localhost but "
NO_FLAG = f"{INCLUDES}--iptables-localhost-nodeports=false was passed"
NO_IPV6 = f"{INCLUDES}localhost NodePorts are not supported on IPv6"
NO_GATE = (
    f"{INCLUDES}nftables mode needs the feature gate KubeProxyNFTablesLocalhostNodePorts for that"
)
NO_IPVS = f"{INCLUDES}localhost NodePorts are not supported in ipvs mode"
GATE = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"


def unserved(address: str, where: str) -> dict[str, object]:
    return {
        "address": [address],
        "effect": f"NodePort connections will not be accepted on {where}",
    }


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            ["--proxy-mode=nftables", "--nodeport-addresses=127.0.0.0/8"],
            {NO_GATE: [unserved("127.0.0.0/8", "any IPv4 IP")]},
            id="nothing-else",
        ),
        pytest.param(
            ["--proxy-mode=nftables", "--nodeport-addresses=primary,localhost"],
            {NO_GATE: [unserved("127.0.0.0/8", "those"), unserved("::1/128", "those")]},
            id="beside-others",
        ),
        pytest.param(
            [
                "--proxy-mode=iptables",
                "--nodeport-addresses=localhost",
                "--iptables-localhost-nodeports=false",
            ],
            {
                NO_FLAG: [unserved("127.0.0.0/8", "any IPv4 IP")],
                NO_IPV6: [unserved("::1/128", "any IPv6 IP")],
            },
            id="iptables-mode-without-localhost",
        ),
        pytest.param(
            ["--proxy-mode=iptables", "--nodeport-addresses=localhost"],
            {NO_IPV6: [unserved("::1/128", "any IPv6 IP")]},
            id="iptables-mode",
        ),
        pytest.param(
            ["--proxy-mode=ipvs", "--nodeport-addresses=127.0.0.1/32"],
            {NO_IPVS: [unserved("127.0.0.1/32", "any IPv4 IP")]},
            id="ipvs-mode",
        ),
        pytest.param(
            ["--proxy-mode=nftables", "--nodeport-addresses=localhost", GATE],
            {},
            id="the-gate-serves-it",
        ),
        pytest.param(
            ["--proxy-mode=nftables", "--nodeport-addresses=all"], {}, id="not-asked-for"
        ),
    ],
)
def test_node_ports_of_localhost_that_are_not_served_are_an_error(
    flags: list[str], expected: dict[str, list[dict[str, object]]]
) -> None:
    found: dict[str, list[object]] = {}
    for notice in notices(KESTREL, *flags):
        if notice.message.startswith(INCLUDES):
            assert notice.level is Level.ERROR
            found.setdefault(notice.message, []).append(notice.pairs)
    assert expected == found


def test_settings_of_userspace_mode_have_no_effect_elsewhere() -> None:
    flags = ("--udp-timeout=1s", "--proxy-port-range=1-2", "--userspace-workers=2")
    message = "Config field has no effect in this mode: it is for userspace mode"

    def fields(*more: str) -> list[object]:
        found = notices(KESTREL, *flags, *more)
        return [each.pairs["field"] for each in found if each.message == message]

    assert fields() == ["udpIdleTimeout", "portRange", "userspace.workers"]
    assert fields("--proxy-mode=userspace") == []
