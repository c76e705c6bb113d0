"""A node and services whose kernel state under upstream's kube-proxy is known, line by line."""

from collections.abc import Mapping
from typing import Final

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.table.build import Builder
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView, PodCIDR
from world import Document, prefix

NAME: Final = "node-a"
ADDRESS: Final = {Family.IPV4: "10.201.1.2", Family.IPV6: "fd00:201:1::2"}
_PODS = {Family.IPV4: "10.128.0.0/9", Family.IPV6: "fd00:128::/32"}
_EVERYTHING = {Family.IPV4: "0.0.0.0/0", Family.IPV6: "::/0"}


def _service(
    name: str,
    cluster_ips: str,
    port: Mapping[str, object],
    spec: Mapping[str, object] | None = None,
    vip: str = "",
) -> Document:
    addresses = cluster_ips.split()
    families = [Family.IPV6.value if ":" in each else Family.IPV4.value for each in addresses]
    return {
        "metadata": {"namespace": "spec-ipt", "name": name},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilies": families,
            "ports": [{"protocol": "TCP", **port}],
            **(spec or {}),
        },
        "status": {"loadBalancer": {"ingress": [{"ip": vip}] if vip else []}},
    }


def _slice(name: str, port: Mapping[str, object], endpoints: str) -> Document:
    """Endpoints are addresses; a star marks those of this node."""
    addresses = endpoints.split()
    family = Family.IPV6 if ":" in addresses[0] else Family.IPV4
    return {
        "metadata": {
            "namespace": "spec-ipt",
            "name": f"{name}-{family.value}",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": family.value,
        "ports": [{"name": "", "protocol": "TCP", **port}],
        "endpoints": [
            {
                "addresses": [each.rstrip("*")],
                "nodeName": NAME if each.endswith("*") else "node-b",
                "conditions": {"ready": True, "serving": True, "terminating": False},
            }
            for each in addresses
        ],
    }


_AFFINITY = {
    "sessionAffinity": "ClientIP",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}},
}
_SHOP = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "healthCheckNodePort": 32080,
    "externalIPs": ["198.51.100.10"],
}
_ADMIN = {
    "type": "LoadBalancer",
    "loadBalancerSourceRanges": ["10.201.0.0/16", "192.0.2.7/32"],
}
_DNS = {"name": "dns", "protocol": "UDP", "port": 5353}
_HTTP = {"name": "http", "port": 80}

DOCUMENTS: tuple[Document, ...] = (
    _service("kubernetes", "10.96.0.1", {"name": "https", "port": 443}),
    _service("web", "10.96.50.1 fd00:10:96::5001", {"name": "", "port": 80}),
    _slice("web", {"port": 8080}, "10.128.1.10* 10.128.2.9 10.128.2.10"),
    _slice("web", {"port": 8080}, "fd00:128:1::10*"),
    _service("dns", "10.96.50.2 fd00:10:96::5002", {**_DNS, "port": 53}, _AFFINITY),
    _slice("dns", _DNS, "10.128.1.11* 10.128.2.11"),
    _slice("dns", _DNS, "fd00:128:1::11* fd00:128:2::11"),
    _service("shop", "10.96.50.3", {**_HTTP, "nodePort": 30080}, _SHOP, "203.0.113.10"),
    _slice("shop", {"name": "http", "port": 8080}, "10.128.1.12* 10.128.2.12"),
    _service(
        "admin",
        "10.96.50.4",
        {"name": "https", "port": 443, "nodePort": 30443},
        _ADMIN,
        "203.0.113.20",
    ),
    _slice("admin", {"name": "https", "port": 8443}, "10.128.2.13"),
    _service(
        "cache", "10.96.50.5", {"name": "redis", "port": 6379}, {"internalTrafficPolicy": "Local"}
    ),
    _slice("cache", {"name": "redis", "port": 6379}, "10.128.2.14"),
    _service("idle", "10.96.50.6", {**_HTTP, "nodePort": 30600}, {"type": "NodePort"}),
)


def table(family: Family) -> Table:
    """The services, compiled for the node."""
    cluster = Cluster(NAME)
    for document in DOCUMENTS:
        kind = Kind.ENDPOINT_SLICE if "addressType" in document else Kind.SERVICE
        cluster.upsert(kind, convert(kind, document))
    builder = Builder(family)
    builder.update(cluster, (), NodeView(family, name=cluster.node_name, ip=ADDRESS[family]))
    return builder.table


def node(family: Family) -> NodeView:
    """The node, as it is set up by default."""
    return NodeView(
        family,
        addresses=(ADDRESS[family],),
        detector=PodCIDR(prefix(_PODS[family])),
        node_port_ranges=(prefix(_EVERYTHING[family]),),
    )
