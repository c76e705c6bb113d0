"""What a daemon reports of itself, as values: kestrel with the Services of a shop."""

from msgspec.structs import replace

from kubeproxy.serve.status.wire import (
    AddressConflict,
    DaemonStatus,
    EndpointDetail,
    FamilyStatus,
    FrontendDetail,
    NotProgrammed,
    PortDetail,
    ServiceDetail,
    ServiceList,
    ServiceRates,
    ServiceSummary,
    Sync,
)

NOW = "2026-09-01T12:00:00.000Z"

FULL = Sync("2026-09-01T11:00:00.000Z", 0.0204, True, "ok", 3, 0, 0, 41)
LAST = Sync("2026-09-01T11:59:58.000Z", 0.0013, False, "ok", 0, 1, 0, 2)
REFUSED = NotProgrammed("shop/cart:http", "TCP", "the kernel has no SCTP")
TWICE = AddressConflict("203.0.113.7:80/TCP", "shop/cart:http", "shop/till:http")


def family(name: str = "IPv4") -> FamilyStatus:
    return FamilyStatus(
        ip_family=name,
        healthy=True,
        services=3,
        service_ports=4,
        frontends=1210,
        endpoints=12,
        syncs=14,
        failures=0,
        last_sync=LAST,
        last_full_sync=FULL,
        waiting_seconds=None,
        not_programmed=(),
        conflicts=(),
        history=(FULL, LAST),
    )


def status(*families: FamilyStatus) -> DaemonStatus:
    families = families or (family(), family("IPv6"))
    return DaemonStatus(
        version="0.9.0",
        commit="0123456789ab",
        kubernetes_version="v1.38.0",
        node="kestrel",
        mode="nftables",
        pid=4711,
        started="2026-09-01T10:59:59.000Z",
        now=NOW,
        uptime_seconds=3601.0,
        cpu_seconds=7.2,
        memory_bytes=45_300_000,
        source="manifests in /etc/shop",
        config_file="",
        health_address="0.0.0.0:10256",
        metrics_address="127.0.0.1:10249",
        healthy=all(each.healthy for each in families),
        node_eligible=True,
        counts_connections=True,
        families=families,
    )


CART = ServiceSummary(
    namespace="shop",
    service="cart",
    addresses=("10.112.0.21", "203.0.113.7"),
    ports=("http:80/TCP",),
    node_ports=(31080,),
    endpoints=4,
    endpoints_used=1,
    connections=1200,
    per_second=12.5,
)
DNS = ServiceSummary(
    namespace="kube-system",
    service="dns",
    addresses=("10.112.0.10", "fd12::a"),
    ports=("dns:53/UDP", "dns-tcp:53/TCP"),
    node_ports=(),
    endpoints=8,
    endpoints_used=8,
    connections=77,
    per_second=0.5,
)
REPORTS = ServiceSummary(
    namespace="shop",
    service="reports",
    addresses=("10.112.0.23",),
    ports=("80/TCP",),
    node_ports=(),
    endpoints=0,
    endpoints_used=0,
    connections=0,
    per_second=0.0,
    problems=("no endpoint can serve",),
)


def services(*found: ServiceSummary) -> ServiceList:
    return ServiceList("nftables", 3, len(found), True, found)


def not_counted(found: ServiceList) -> ServiceList:
    """The same in a mode that counts nothing."""
    silent = tuple(replace(each, connections=None, per_second=None) for each in found.services)
    return replace(found, mode="iptables", counts_connections=False, services=silent)


RATES = ServiceRates(NOW, 1.0, {"shop/cart": 12.5, "kube-system/dns": 0.5})


def port() -> PortDetail:
    return PortDetail(
        name="http",
        protocol="TCP",
        ip_family="IPv4",
        frontends=(
            FrontendDetail("cluster-ip", "10.112.0.21", 80, 1100, 12.0),
            FrontendDetail("node-port", "", 31080, 100, 0.5),
        ),
        endpoints=(
            _endpoint("10.64.3.11", "kestrel", not_for_cluster="", not_for_local=""),
            _endpoint(
                "10.65.7.21",
                "heron",
                not_for_cluster="",
                not_for_local="it is on node heron, and the traffic policy is Local",
            ),
            _endpoint(
                "10.64.3.12",
                "kestrel",
                state="not ready",
                not_for_cluster="it is not ready",
                not_for_local="it is not ready",
            ),
            _endpoint(
                "10.66.9.31",
                "",
                state="terminating, serving",
                not_for_cluster="it is terminating, and others are ready",
                not_for_local="its slice does not say on which node it is",
            ),
        ),
        internal_traffic_policy="Cluster",
        external_traffic_policy="Local",
        balance="random",
    )


def _endpoint(address: str, node: str, state: str = "ready", **reasons: str) -> EndpointDetail:
    return EndpointDetail(
        address=address,
        port=8080,
        node=node,
        on_this_node=node == "kestrel",
        ready=state == "ready",
        serving=state in {"ready", "terminating, serving"},
        terminating=state.startswith("terminating"),
        used="" in reasons.values(),
        not_for_cluster=reasons.get("not_for_cluster"),
        not_for_local=reasons.get("not_for_local"),
    )


def detail(*ports: PortDetail) -> ServiceDetail:
    return ServiceDetail("nftables", "kestrel", "shop", "cart", True, ports or (port(),))
