from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Prefix, Protocol
from kubeproxy.cluster.model.serviceport import ServicePort, derive_service_ports
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.types import Service
from world import service


class Derived(NamedTuple):
    ports: tuple[ServicePort, ...]
    problems: list[str]


def derive(
    document: Mapping[str, object], family: Family = Family.IPV4, *, allow: bool = True
) -> Derived:
    obj = convert(Kind.SERVICE, document)
    assert isinstance(obj, Service)
    problems: list[str] = []
    ports = derive_service_ports(obj, family, problems, allow_external_ips=allow)
    return Derived(ports, problems)


def affine(seconds: int) -> Mapping[str, object]:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return service({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config})


def annotated(value: str, name: str = "balance") -> Mapping[str, object]:
    annotations = {f"kubeproxy.io/{name}": value}
    return {
        **service(),
        "metadata": {"namespace": "shop", "name": "cart", "annotations": annotations},
    }


@pytest.mark.parametrize(
    ("spec", "family", "expected"),
    [
        pytest.param({}, Family.IPV4, "10.112.0.21", id="the-only-cluster-ip"),
        pytest.param({}, Family.IPV6, None, id="not-in-the-other-family"),
        pytest.param({"clusterIP": "None"}, Family.IPV4, None, id="headless"),
        pytest.param({"type": "ExternalName"}, Family.IPV4, None, id="external-name"),
        pytest.param(
            {"ipFamilies": ["IPv6", "IPv4"], "clusterIPs": ["fd12::1", "10.112.0.9"]},
            Family.IPV4,
            "10.112.0.9",
            id="by-position-in-the-families",
        ),
        pytest.param(
            {"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.112.0.9"]},
            Family.IPV6,
            None,
            id="family-without-its-address",
        ),
        pytest.param(
            {"ipFamilies": ["IPv4"]}, Family.IPV4, "10.112.0.21", id="list-of-addresses-missing"
        ),
        pytest.param({"clusterIP": "10.112.0.021"}, Family.IPV4, "10.112.0.21", id="zeros"),
    ],
)
def test_cluster_ip(spec: Mapping[str, object], family: Family, expected: str | None) -> None:
    derived = derive(service(spec), family)
    assert expected == (derived.ports[0].cluster_ip if derived.ports else None)
    assert derived.problems == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(
            service({"clusterIP": ""}),
            "spec.clusterIP is missing: the Service is not proxied",
            id="no-cluster-ip",
        ),
        pytest.param(
            service({"clusterIP": "10.1"}), "the cluster IP '10.1' is not an IP address", id="ip"
        ),
        pytest.param(
            service({"ipFamilies": ["IPv4"], "clusterIPs": ["fd12::1"]}),
            "the cluster IP 'fd12::1' is not IPv4",
            id="ip-of-the-wrong-family",
        ),
        pytest.param(
            service({"ports": [{"port": 80, "protocol": "ICMP"}]}),
            "spec.ports[0].protocol 'ICMP' is none of TCP, UDP, SCTP",
            id="protocol",
        ),
        pytest.param(
            service({"ports": [{"port": 0}]}), "spec.ports[0].port 0 is not a port number", id="0"
        ),
        pytest.param(
            service({"ports": [{"port": 80, "nodePort": 70000}]}),
            "spec.ports[0].nodePort 70000 is not a port number",
            id="node-port",
        ),
        pytest.param(
            service({"ports": [{"port": 80}, {"port": 81, "protocol": "TCP"}]}),
            "spec.ports[1] repeats the name and protocol of an earlier port",
            id="same-port-twice",
        ),
        pytest.param(
            service({"externalIPs": ["", "x"]}),
            "spec.externalIPs: 'x' is not an IP address",
            id="external-ip",
        ),
        pytest.param(
            service(vips=["x", {"hostname": "lb"}]),
            "status.loadBalancer.ingress: 'x' is not an IP address",
            id="load-balancer-ip",
        ),
        pytest.param(
            service({"loadBalancerSourceRanges": ["10.0.0.0/8", "x"]}),
            "spec.loadBalancerSourceRanges: 'x' is not a CIDR",
            id="source-range",
        ),
        pytest.param(
            annotated("fastest"),
            "annotation kubeproxy.io/balance 'fastest' is none of random, round-robin,"
            " source-hash",
            id="balance",
        ),
        pytest.param(
            annotated("on", "healing"),
            'annotation kubeproxy.io/healing: \'"on" is none of none, all, retryRefused, '
            "retryUnanswered, resetGone, eject'",
            id="healing",
        ),
        pytest.param(
            service({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
            "externalTrafficPolicy is Local but spec.healthCheckNodePort is not set",
            id="health-check-port",
        ),
        *(
            pytest.param(
                service(
                    {
                        "type": "LoadBalancer",
                        "externalTrafficPolicy": "Local",
                        "healthCheckNodePort": port,
                    }
                ),
                f"spec.healthCheckNodePort {port} is not a port number",
                id=f"health-check-port-{port}",
            )
            for port in (70000, -5)
        ),
        pytest.param(
            affine(10**18),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds 1000000000000000000 is more than a"
            " day: a client keeps its endpoint for 86400 seconds",
            id="affinity",
        ),
        pytest.param(
            annotated("x" * 250_000),
            f"annotation kubeproxy.io/balance 'xxx{'x' * 96}... (250002 characters) is none of"
            " random, round-robin, source-hash",
            id="a-long-text",
        ),
    ],
)
def test_what_makes_no_sense_is_named_and_left_out(
    document: Mapping[str, object], problem: str
) -> None:
    assert derive(document).problems == [problem]


@pytest.mark.parametrize(
    ("ranges", "family", "expected"),
    [
        pytest.param(None, Family.IPV4, None, id="not-asked-for"),
        pytest.param([], Family.IPV4, None, id="empty"),
        pytest.param(["  "], Family.IPV4, None, id="blank"),
        pytest.param([" 10.0.0.0/8 "], Family.IPV4, (Prefix("10.0.0.0", 8),), id="trimmed"),
        pytest.param(["10.0.0.0/8", "0.0.0.0/0"], Family.IPV4, None, id="all"),
        pytest.param(["fd00::/8"], Family.IPV4, (), id="other-family-only-allows-no-client"),
        pytest.param(["::/0"], Family.IPV4, (), id="all-of-the-other-family"),
    ],
)
def test_source_ranges(
    ranges: list[str] | None, family: Family, expected: tuple[Prefix, ...] | None
) -> None:
    derived = derive(service({"loadBalancerSourceRanges": ranges}), family)
    assert expected == derived.ports[0].source_ranges


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"sessionAffinity": "ClientIP"}, 10800, id="default"),
        pytest.param(
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": None}},
            10800,
            id="null",
        ),
        pytest.param(
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
            },
            5,
            id="given",
        ),
    ],
)
def test_affinity(spec: Mapping[str, object], expected: int) -> None:
    assert expected == derive(service(spec)).ports[0].affinity_seconds


@pytest.mark.parametrize(("seconds", "expected"), [(-1, 10800), (86400, 86400), (10**12, 86400)])
def test_affinity_lasts_a_day_at_the_most(seconds: int, expected: int) -> None:
    assert expected == derive(affine(seconds)).ports[0].affinity_seconds


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"type": "LoadBalancer"}, True, id="load-balancer"),
        pytest.param({"type": "NodePort"}, True, id="node-port"),
        pytest.param({"type": "ClusterIP"}, False, id="cluster-ip"),
        pytest.param({"externalIPs": ["2001:db8::5"]}, True, id="external-ip-of-any-family"),
    ],
)
def test_external_policy_needs_an_external_address(
    spec: Mapping[str, object], expected: bool
) -> None:
    derived = derive(service({**spec, "externalTrafficPolicy": "Local"}))
    assert expected == derived.ports[0].external_local


def test_health_check_port_needs_type_load_balancer() -> None:
    local = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32100}
    assert derive(service({"type": "NodePort", **local})).ports[0].health_check_port == 0
    assert derive(service({"type": "LoadBalancer", **local})).ports[0].health_check_port == 32100


def test_the_gate_takes_external_ips_away_but_they_still_count() -> None:
    port = derive(service({"externalIPs": ["198.18.0.5"]}), allow=False).ports[0]
    assert port.external_ips == ()
    assert port.externally_accessible


def test_protocol_defaults_to_tcp_and_ports_are_apart_by_protocol() -> None:
    ports = [{"port": 53}, {"port": 53, "protocol": "UDP"}]
    derived = derive(service({"ports": ports}))
    assert [port.protocol for port in derived.ports] == [Protocol.TCP, Protocol.UDP]


def test_a_service_without_spec_is_ignored() -> None:
    assert derive({"metadata": {"name": "a"}}).ports == ()


def test_the_annotation_says_how_to_choose() -> None:
    assert derive(annotated("round-robin")).ports[0].balance == "round-robin"
    assert derive(service()).ports[0].balance == ""


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(service(), None, id="left-to-the-configuration"),
        pytest.param(annotated("all", "healing"), Healing.ALL, id="all"),
        pytest.param(annotated("none", "healing"), Healing.NONE, id="none"),
        pytest.param(annotated("everything", "healing"), None, id="wrong"),
    ],
)
def test_healing(document: Mapping[str, object], expected: Healing | None) -> None:
    assert expected == derive(document).ports[0].healing


def test_a_selector_is_known() -> None:
    assert derive(service({"selector": {"app": "cart"}})).ports[0].has_selector
    assert not derive(service({"selector": {}})).ports[0].has_selector
    assert not derive(service()).ports[0].has_selector
