import pytest
from msgspec.structs import replace

from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.errors import ConfigError, Level, Notice
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import complete
from kubeproxy.config.types import IPVS, KubeProxyConfiguration, Winkernel
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine.node_warnings import family_warnings, node_port_warnings

NODE = NodeState("kestrel", ips=("192.168.0.2", "fd00::2"))
IPV4_ALONE = NodeState("kestrel", ips=("192.168.0.2",))
IPV6_PRIMARY = replace(NODE, ips=NODE.ips[::-1])


def config_of(*arguments: str) -> KubeProxyConfiguration:
    return complete(parse_flags(["--proxy-mode=iptables", *arguments]), None, MODES).config


def warnings(config: KubeProxyConfiguration, node: NodeState) -> tuple[Notice, ...]:
    return family_warnings(config, node, dual_stack=len(node.ips) > 1)


def warning(text: str) -> tuple[Notice, ...]:
    message = "Kube-proxy configuration may be incomplete or incorrect"
    return (Notice(Level.ERROR, message, {"err": text}),)


UNSET = (
    "nodePortAddresses is unset; NodePort connections will be accepted on all local IPs."
    " Consider using `--nodeport-addresses primary`"
)
UNKNOWN = (
    "nodePortAddresses names no address, because this node's IPs are not known;"
    " NodePort connections will not be accepted. Consider setting `--bind-address`"
)
ONLY_IPV4 = (
    "cluster appears to be dual-stack but nodePortAddresses contains only IPv4 addresses;"
    " NodePort connections will not be accepted on any IPv6 IP"
)
NOT_PRIMARY = (
    "cluster appears to be IPv4-primary but nodePortAddresses contains only IPv6 addresses;"
    " NodePort connections will not be accepted on any IPv4 IP"
)


@pytest.mark.parametrize(
    ("arguments", "node", "expected"),
    [
        pytest.param([], NODE, UNSET, id="unset"),
        pytest.param(
            ["--nodeport-addresses=primary"],
            NodeState("kestrel", ips=("127.0.0.1",)),
            UNKNOWN,
            id="primary-of-an-unknown-address",
        ),
        pytest.param(
            ["--nodeport-addresses=10.0.0.0/8", "--cluster-cidr=10.0.0.0/8,fd00::/8"],
            NODE,
            ONLY_IPV4,
            id="dual-stack-by-cluster-cidr",
        ),
        pytest.param(
            ["--nodeport-addresses=10.0.0.0/8", "--ipvs-exclude-cidrs=10.0.0.0/8,fd00::/8"],
            NODE,
            ONLY_IPV4,
            id="dual-stack-by-excluded-cidrs",
        ),
        pytest.param(
            ["--nodeport-addresses=10.0.0.0/8"],
            replace(NODE, pod_cidrs=("10.0.0.0/8", "fd00::/8")),
            ONLY_IPV4,
            id="dual-stack-by-pod-cidrs",
        ),
        pytest.param(
            ["--nodeport-addresses=fd00::/8"], NODE, NOT_PRIMARY, id="only-the-other-family"
        ),
    ],
)
def test_node_ports_that_are_open_or_closed_by_surprise_are_mentioned(
    arguments: list[str], node: NodeState, expected: str
) -> None:
    assert warning(expected) == node_port_warnings(config_of(*arguments), node)


@pytest.mark.parametrize(
    ("arguments", "node"),
    [
        pytest.param(["--nodeport-addresses=primary"], NODE, id="both-families"),
        pytest.param(["--nodeport-addresses=10.0.0.0/8"], NODE, id="single-stack-settings"),
        pytest.param(["--nodeport-addresses=fd00::/8"], IPV6_PRIMARY, id="ipv6-primary"),
    ],
)
def test_node_ports_that_are_limited_are_not(arguments: list[str], node: NodeState) -> None:
    assert node_port_warnings(config_of(*arguments), node) == ()


@pytest.mark.parametrize(
    ("arguments", "node", "expected"),
    [
        pytest.param(
            ["--cluster-cidr=fd00::/8"],
            NODE,
            "cluster is IPv4-primary but clusterCIDRs contains only IPv6 addresses",
            id="cluster-cidr-with-both-families-at-work",
        ),
        pytest.param(
            ["--cluster-cidr=fd00::/8", "--detect-local-mode=NodeCIDR"],
            IPV4_ALONE,
            "cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses",
            id="cluster-cidr-that-is-not-used",
        ),
        pytest.param(
            ["--cluster-cidr=10.0.0.0/8"],
            IPV6_PRIMARY,
            "cluster is IPv6-primary but clusterCIDRs contains only IPv4 addresses",
            id="the-other-way-round",
        ),
        pytest.param(
            [],
            replace(NODE, pod_cidrs=("fd00::/8",)),
            "cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses",
            id="pod-cidrs-that-are-not-used",
        ),
        pytest.param(
            ["--ipvs-exclude-cidrs=fd00::/8"],
            IPV4_ALONE,
            "cluster is IPv4-only but ipvs.excludeCIDRs contains only IPv6 addresses",
            id="excluded-cidrs",
        ),
        pytest.param(
            ["--healthz-bind-address=fd00::1", "--metrics-bind-address=[fd00::1]:1"],
            IPV4_ALONE,
            "[cluster is IPv4-only but healthzBindAddress is IPv6, cluster is IPv4-only but"
            " metricsBindAddress is IPv6]",
            id="addresses-of-servers",
        ),
    ],
)
def test_settings_of_the_other_family_are_mentioned(
    arguments: list[str], node: NodeState, expected: str
) -> None:
    assert warning(expected) == warnings(config_of(*arguments), node)


def test_a_source_address_for_windows_is_compared_too() -> None:
    config = replace(
        config_of(),
        winkernel=Winkernel(source_vip="fd00::1"),
        ipvs=IPVS(exclude_cidrs=("fd00::/8",)),
    )
    expected = (
        "[cluster is IPv4-only but winkernel.sourceVip is IPv6, cluster is IPv4-only but"
        " ipvs.excludeCIDRs contains only IPv6 addresses]"
    )
    assert warning(expected) == warnings(config, IPV4_ALONE)


@pytest.mark.parametrize(
    ("arguments", "node"),
    [
        pytest.param([], IPV4_ALONE, id="nothing-is-set"),
        pytest.param(["--cluster-cidr=10.0.0.0/8,fd00::/8"], IPV4_ALONE, id="both-families"),
        pytest.param(["--ipvs-exclude-cidrs=fd00::/8"], NODE, id="excluded-with-both-at-work"),
        pytest.param(["--healthz-bind-address=::"], IPV4_ALONE, id="every-address"),
        pytest.param(["--healthz-port=0"], IPV4_ALONE, id="no-address"),
        pytest.param(
            ["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=br0"],
            IPV4_ALONE,
            id="a-mode-without-families",
        ),
    ],
)
def test_settings_that_fit_are_not(arguments: list[str], node: NodeState) -> None:
    assert warnings(config_of(*arguments), node) == ()


@pytest.mark.parametrize(
    ("arguments", "node", "expected"),
    [
        pytest.param(
            ["--cluster-cidr=fd00::/8"],
            IPV4_ALONE,
            "cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses",
            id="cluster-cidr-on-a-single-stack",
        ),
        pytest.param(
            ["--detect-local-mode=NodeCIDR"],
            replace(NODE, pod_cidrs=("fd00::/8",)),
            "cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses",
            id="pod-cidrs",
        ),
    ],
)
def test_without_a_way_to_tell_local_traffic_it_ends(
    arguments: list[str], node: NodeState, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        warnings(config_of(*arguments), node)
    assert f"kube-proxy configuration is incorrect: {expected}" == str(caught.value)


def test_a_mode_without_families_never_ends() -> None:
    config = config_of(
        "--detect-local-mode=BridgeInterface",
        "--pod-bridge-interface=br0",
        "--cluster-cidr=fd00::/8",
    )
    text = "cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses"
    assert warning(text) == warnings(config, IPV4_ALONE)
