"""What a daemon might say of itself: values for the pages to show."""

import msgspec

from kubeproxy.explain.words import Candidate, Explanation, Matched, NotChosen
from kubeproxy.serve.status.wire import (
    AddressConflict,
    DaemonStatus,
    EndpointDetail,
    FamilyStatus,
    FrontendDetail,
    LeftOut,
    NotProgrammed,
    PortDetail,
    ServiceDetail,
    ServiceList,
    ServiceRates,
    ServiceSummary,
    Sync,
)

NOW = "2026-03-01T12:00:10Z"
HOSTILE = """</style></textarea>'"><script>alert(1)</script><img src=x onerror=alert(1)>"""
"""A name that is HTML wherever it is not escaped."""

SYNC = Sync("2026-03-01T12:00:07Z", 0.0008, False, "ok", changed=1, written=4)
FULL = Sync("2026-03-01T11:30:00Z", 0.43, True, "ok", added=812, written=24_360)

IPV4 = FamilyStatus(
    ip_family="IPv4",
    healthy=True,
    services=812,
    service_ports=1203,
    frontends=2409,
    endpoints=24_360,
    syncs=2,
    failures=0,
    last_sync=SYNC,
    last_full_sync=FULL,
    waiting_seconds=None,
    not_programmed=(),
    conflicts=(),
    history=(FULL, SYNC),
)
IPV6 = msgspec.structs.replace(
    IPV4, ip_family="IPv6", syncs=0, last_sync=None, last_full_sync=None, history=()
)
STATUS = DaemonStatus(
    version="0.9",
    commit="0123456789ab",
    kubernetes_version="v1.38.0",
    node="kestrel",
    mode="nftables",
    pid=4711,
    started="2026-03-01T11:30:00Z",
    now=NOW,
    uptime_seconds=1810.0,
    cpu_seconds=4.2,
    memory_bytes=48_000_000,
    source="API server https://192.0.2.1:6443",
    config_file="",
    health_address="0.0.0.0:10256",
    metrics_address="127.0.0.1:10249",
    healthy=True,
    node_eligible=True,
    counts_connections=True,
    families=(IPV4,),
)
RATES = ServiceRates(NOW, 2.0, {"shop/web": 12.5, "shop/cart": 3.0})

WEB = ServiceSummary(
    namespace="shop",
    service="web",
    addresses=("10.112.0.20", "fd12::20"),
    ports=("http:80/TCP",),
    node_ports=(31080,),
    endpoints=4,
    endpoints_used=3,
    connections=1234,
    per_second=12.5,
)
LIST = ServiceList("nftables", 1, 1, True, (WEB,))

USED = EndpointDetail("10.64.3.11", 8080, "kestrel", True, True, True, False, True, "", "", 7, 0.5)
FAR = EndpointDetail(
    *("10.65.7.21", 8080, "heron", False, True, True, False, True, ""),
    "it is on node heron, and the traffic policy is Local",
)
UNREADY = EndpointDetail(
    *("10.64.3.12", 8080, "", False, False, False, False, False, "not ready", "not ready"),
)
DRAINING = EndpointDetail(
    *("10.64.3.13", 8080, "kestrel", True, False, True, True, False, "terminating"),
)
FAILING = msgspec.structs.replace(
    USED,
    used=False,
    not_for_cluster="left out until 12:00:15 UTC",
    not_for_local="left out until 12:00:15 UTC",
    left_out_until="2026-03-01T12:00:15.000Z",
    failures={"refused": 16, "gone": 1},
)
STOPPED = msgspec.structs.replace(DRAINING, address="10.64.3.14", serving=False)
PORT = PortDetail(
    name="http",
    protocol="TCP",
    ip_family="IPv4",
    frontends=(
        FrontendDetail("cluster-ip", "10.112.0.20", 80, 1230, 12.5),
        FrontendDetail("node-port", "", 31080, 4, None),
    ),
    endpoints=(USED, FAR, UNREADY, DRAINING, STOPPED),
    internal_traffic_policy="Cluster",
    external_traffic_policy="Local",
    affinity_seconds=10_800,
    source_ranges=("192.0.2.0/25",),
    balance="random",
    health_check_port=31999,
)
DETAIL = ServiceDetail("nftables", "kestrel", "shop", "web", True, (PORT,))

EXPLANATION = Explanation(
    node="kestrel",
    mode="nftables",
    source="192.0.2.50",
    source_class="outside",
    destination="203.0.113.20:443/TCP",
    client="outside: the address is neither this node's nor in the pod range 10.64.0.0/14",
    verdict="forward",
    summary="forwarded to one of 2 endpoints, chosen for each connection",
    matched=Matched("shop", "web", "https", "load-balancer IP", "203.0.113.20", 443, "TCP"),
    endpoints=(
        Candidate("10.64.3.11:8443", 50.0, "kestrel", True, False, False),
        Candidate("10.65.7.21:8443", 50.0, "heron", False, True, True),
    ),
    not_chosen=(NotChosen("10.65.7.22:8443", "it is not ready"),),
    source_address="kept: externalTrafficPolicy is Local, which keeps the client's address",
    affinity="a client keeps its endpoint until it made no new connection for 3 h",
    healing="if the endpoint refuses, the client's next SYN chooses again among the 2 endpoints",
    replies="go to the client's own address",
    notes=("203.0.113.20 stands for any client outside",),
)
REFUSED = NotProgrammed("shop/web:http", "TCP", "the kernel says: no space left")
LEFT_OUT = LeftOut(
    service_port="shop/web:http",
    protocol="TCP",
    endpoint="10.64.3.12:8080",
    until="2026-03-01T12:00:15.000Z",
    reason="refused",
    failures=16,
    clients=3,
    times=1,
    why="left out until 12:00:15 UTC: 16 connections of 3 clients were refused; it is tried again"
    " then",
)
CLAIMED = AddressConflict("*:31080/TCP", "shop/web:http", "mall/web:http")
