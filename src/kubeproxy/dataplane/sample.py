"""A small cluster that needs every kind of rule: trials write it into a scratch namespace."""

from kubeproxy.base.inet import Family, Prefix, Protocol
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    HealthCheck,
    ServiceName,
    ServicePortName,
    Table,
)
from kubeproxy.table.node import NodeView, PodCIDR
from kubeproxy.table.policy import Policy

# Of the ranges for documentation: no node has them.
_NETWORK = {Family.IPV4: "192.0.2.", Family.IPV6: "2001:db8::"}
_PODS = {Family.IPV4: Prefix("203.0.113.0", 24), Family.IPV6: Prefix("2001:db8:1::", 48)}
_ANY = {Family.IPV4: Prefix("0.0.0.0", 0), Family.IPV6: Prefix("::", 0)}  # noqa: S104  # a range


def sample_node(family: Family) -> NodeView:
    """A node that serves node ports on all of its addresses, and knows its pods by their range."""
    return NodeView(
        family,
        addresses=(_address(family, 1),),
        detector=PodCIDR(_PODS[family]),
        node_port_ranges=(_ANY[family],),
        service_cidrs=(_ANY[family],),
    )


def sample_table(family: Family) -> Table:
    """Services with all kinds of addresses, with affinity, with ranges, and without endpoints."""
    table = Table(family)
    here = Backend(_address(family, 21), 8080, local=True)
    endpoints = (here, Backend(_address(family, 22), 8080))
    for entry in (_shop(family, endpoints), _dns(family, endpoints), _idle(family)):
        table.put(entry)
    table.health_checks[ServiceName("check", "shop")] = HealthCheck(32000, 1)
    return table


def _address(family: Family, number: int) -> str:
    return f"{_NETWORK[family]}{number}"


def _shop(family: Family, endpoints: tuple[Backend, ...]) -> Entry:
    """All addresses that a Service can have, for known clients, with affinity."""
    return Entry(
        ServicePortName("check", "shop", "http", Protocol.TCP),
        (
            Frontend(FrontendKind.CLUSTER_IP, _address(family, 11), 80),
            Frontend(FrontendKind.LOAD_BALANCER, _address(family, 12), 80),
            Frontend(FrontendKind.EXTERNAL_IP, _address(family, 13), 80),
            Frontend(FrontendKind.NODE_PORT, "", 30080),
        ),
        cluster=endpoints,
        local=endpoints[:1],
        has_endpoints=True,
        external=Policy.EXTERNAL_LOCAL,
        externally_accessible=True,
        affinity_seconds=10800,
        source_ranges=(_PODS[family],),
        own_vips=True,
        endpoints=2,
        here=endpoints[:1],
    )


def _dns(family: Family, endpoints: tuple[Backend, ...]) -> Entry:
    """A cluster IP whose clients choose by hash, where that can be."""
    return Entry(
        ServicePortName("check", "dns", "dns", Protocol.UDP),
        (Frontend(FrontendKind.CLUSTER_IP, _address(family, 14), 53),),
        cluster=endpoints,
        has_endpoints=True,
        serving=endpoints,
        balance=Balance.SOURCE_HASH,
        endpoints=2,
        here=endpoints[:1],
    )


def _idle(family: Family) -> Entry:
    """A service without endpoints."""
    return Entry(
        ServicePortName("check", "idle", "", Protocol.TCP),
        (
            Frontend(FrontendKind.CLUSTER_IP, _address(family, 15), 80),
            Frontend(FrontendKind.NODE_PORT, "", 30081),
        ),
        externally_accessible=True,
    )
