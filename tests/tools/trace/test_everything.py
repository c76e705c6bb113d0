"""All service ports, as the table has them."""

from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
    Table,
)
from kubeproxy.table.policy import Policy
from kubeproxy.tools.trace.everything import watched_table
from kubeproxy.tools.trace.table import may_refuse

HERE, THERE = Backend("fd40::11", 8080, local=True), Backend("fd41::21", 8080)
ENTRY = Entry(
    ServicePortName("shop", "web", "http", Protocol.TCP),
    (
        Frontend(FrontendKind.CLUSTER_IP, "fd12::21", 80),
        Frontend(FrontendKind.NODE_PORT, "", 31080),
    ),
    cluster=(HERE, THERE),
    local=(HERE,),
    external=Policy.EXTERNAL_LOCAL,
)
NAMELESS = ServicePortName("shop", "dns", "", Protocol.UDP)


def table_of(*entries: Entry) -> Table:
    table = Table(Family.IPV6)
    for entry in entries:
        table.put(entry)
    return table


def test_service_ports() -> None:
    web, dns = watched_table(table_of(ENTRY, Entry(NAMELESS, (), source_ranges=())))
    assert (web.name, dns.name) == ("shop/web:http", "shop/dns")
    assert [(each.kind, each.address, each.port) for each in web.port.frontends] == [
        ("cluster-ip", "fd12::21", 80),
        ("node-port", "", 31080),
    ]
    assert [(each.address, each.port, each.on_this_node) for each in web.port.endpoints] == [
        ("fd40::11", 8080, True),
        ("fd41::21", 8080, False),
    ]
    assert (web.port.protocol, dns.port.protocol) == ("TCP", "UDP")
    assert {web.port.ip_family, dns.port.ip_family} == {"IPv6"}
    assert (web.port.source_ranges, dns.port.source_ranges) == (None, ())


def test_a_local_policy_without_an_endpoint_here_may_refuse() -> None:
    found = []
    for entry in (ENTRY, replace(ENTRY, cluster=(THERE,), local=())):
        (watched,) = watched_table(table_of(entry))
        found.append(may_refuse(watched.port))
    assert found == [False, True]
