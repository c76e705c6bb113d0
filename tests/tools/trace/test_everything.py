"""All service ports, as `/rules` lists them."""

import msgspec
import pytest

from kubeproxy.serve.status.wire import RuleFrontend, RulePort
from kubeproxy.tools.trace.everything import Rules, watched_rules

PORT = RulePort(
    namespace="shop",
    service="web",
    protocol="TCP",
    ip_family="IPv6",
    frontends=(RuleFrontend("cluster IP", 80, "fd12::21"), RuleFrontend("node port", 31080)),
    internal_traffic_policy="Cluster",
    rows=(),
    port="http",
    endpoints=("[fd40::11]:8080", "[fd41::21]:8080"),
    local_endpoints=("[fd40::11]:8080",),
    source_ranges=("fd99::/64",),
)


@pytest.mark.parametrize(("port", "name"), [("http", "shop/web:http"), ("", "shop/web")])
def test_service_ports(port: str, name: str) -> None:
    sent = msgspec.json.encode({"servicePorts": [msgspec.structs.replace(PORT, port=port)]})
    (watched,) = watched_rules(msgspec.json.decode(sent, type=Rules))
    detail = watched.port
    assert watched.name == name
    assert [(each.kind, each.address, each.port) for each in detail.frontends] == [
        ("cluster-ip", "fd12::21", 80),
        ("node-port", "", 31080),
    ]
    assert [(each.address, each.port, each.on_this_node) for each in detail.endpoints] == [
        ("fd40::11", 8080, True),
        ("fd41::21", 8080, False),
    ]
    assert detail.source_ranges == ("fd99::/64",)
