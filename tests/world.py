"""The address plan and the cluster that tests speak of, as in the worked cases of the semantics.

Node kestrel in zone z-east with 198.51.100.10 (primary) and .77; pods of all nodes in
10.64.0.0/14, those of kestrel in 10.64.3.0/24; cluster IPs in 10.112.0.0/16. Endpoints L1 to L4
run on kestrel, R1 on heron, R2 on merlin. P is a pod of kestrel that is no endpoint, H the host
itself, X and Y are outside.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from kubeproxy.base.inet import Family, Prefix, Protocol, parse_prefix
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.table.build import Builder
from kubeproxy.table.decide import Action, Packet, Verdict
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView, PodCIDR
from kubeproxy.table.quirks import Quirks


class Mode(Enum):
    """The modes, as tests name them."""

    NFTABLES = "nftables"
    IPTABLES = "iptables"
    IPVS = "ipvs"
    USERSPACE = "userspace"

    @property
    def quirks(self) -> Quirks:
        return load_mode(self.value).quirks


NODE_NAME = "kestrel"
ZONE = "z-east"
NODE_IP = {Family.IPV4: "198.51.100.10", Family.IPV6: "2001:db8:aa::10"}
NODE_ADDRESSES = {
    Family.IPV4: ("127.0.0.1", "198.51.100.10", "198.51.100.77"),
    Family.IPV6: ("::1", "2001:db8:aa::10", "2001:db8:aa::77"),
}
ENDPOINTS = {
    "L1": ("10.64.3.11", NODE_NAME),
    "L2": ("10.64.3.12", NODE_NAME),
    "L3": ("10.64.3.13", NODE_NAME),
    "L4": ("10.64.3.14", NODE_NAME),
    "R1": ("10.65.7.21", "heron"),
    "R2": ("10.66.9.31", "merlin"),
}
CLUSTER_IP = "10.112.0.21"
VIP = "203.0.113.7"
EXTERNAL_IP = "198.18.0.5"
NODE_PORT = 31080
HOSTS = {
    "P": "10.64.3.50",
    "X": "192.0.2.50",
    "Y": "192.0.2.200",
    "H": NODE_IP[Family.IPV4],
    "CIP": CLUSTER_IP,
    "VIP": VIP,
    "EXT": EXTERNAL_IP,
    **{name: address for name, (address, _) in ENDPOINTS.items()},
}

Document = dict[str, object]


def prefix(text: str) -> Prefix:
    parsed = parse_prefix(text)
    assert parsed is not None
    return parsed


def service(
    spec: Mapping[str, object] | None = None, *, name: str = "cart", vips: Iterable[object] = ()
) -> Document:
    """A Service with one port 80/TCP named http, unless the spec says otherwise."""
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": CLUSTER_IP,
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
            **(spec or {}),
        },
        "status": {
            "loadBalancer": {"ingress": [v if isinstance(v, dict) else {"ip": v} for v in vips]}
        },
    }


def everywhere(spec: Mapping[str, object] | None = None) -> Document:
    """The Service with all kinds of frontends."""
    ports = [{"name": "http", "port": 80, "nodePort": NODE_PORT}]
    spec = {"type": "LoadBalancer", "externalIPs": [EXTERNAL_IP], "ports": ports, **(spec or {})}
    return service(spec, vips=[VIP])


def endpoint(text: str) -> Document:
    """An endpoint in short: `L1`, `L1:unready`, `L1:draining`, `L1:stopped`, `L1@zone`, `L1%node`.

    Draining is terminating but serving; stopped is terminating and not serving.
    """
    name, _, node_hint = text.partition("%")
    name, _, zone = name.partition("@")
    name, _, state = name.partition(":")
    address, node = ENDPOINTS[name]
    hints: Document = {}
    if zone:
        hints["forZones"] = [{"name": zone}]
    if node_hint:
        hints["forNodes"] = [{"name": node_hint}]
    return {
        "addresses": [address],
        "nodeName": node,
        "conditions": {
            "ready": state == "",
            "serving": state in {"", "draining"},
            "terminating": state in {"draining", "stopped"},
        },
        **({"hints": hints} if hints else {}),
    }


def endpoint_slice(
    endpoints: str = "", spec: Mapping[str, object] | None = None, *, name: str = "cart-1"
) -> Document:
    """A slice with port 8080 named http of the Service cart."""
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"kubernetes.io/service-name": "cart"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": [endpoint(text) for text in endpoints.split()],
        **(spec or {}),
    }


def kestrel() -> Document:
    return {
        "metadata": {"name": NODE_NAME, "labels": {"topology.kubernetes.io/zone": ZONE}},
        "spec": {"podCIDRs": ["10.64.3.0/24"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": ip}
                for family in Family
                for ip in NODE_ADDRESSES[family][1:]
            ]
        },
    }


def cluster_of(*documents: Mapping[str, object]) -> Cluster:
    """A cluster with our Node and the given Services and slices."""
    cluster = Cluster(NODE_NAME)
    cluster.upsert(Kind.NODE, convert(Kind.NODE, kestrel()))
    for document in documents:
        kind = Kind.ENDPOINT_SLICE if "addressType" in document else Kind.SERVICE
        cluster.upsert(kind, convert(kind, document))
    return cluster


def table_of(*documents: Mapping[str, object], family: Family = Family.IPV4) -> Table:
    """The table that they compile to."""
    cluster = cluster_of(*documents)
    builder = Builder(family)
    builder.update(cluster, (), seen_by(cluster, family))
    return builder.table


def seen_by(cluster: Cluster, family: Family = Family.IPV4) -> NodeView:
    """Kestrel, as Services of the cluster are compiled for it."""
    return NodeView(family, name=cluster.node_name, zone=cluster.zone, ip=NODE_IP[family])


def node(mode: Mode, family: Family = Family.IPV4) -> NodeView:
    """Kestrel with the default settings of the mode."""
    everything = Prefix("0.0.0.0" if family is Family.IPV4 else "::", 0)
    primary = Prefix(NODE_IP[family], family.bits)
    pods = prefix("10.64.0.0/14" if family is Family.IPV4 else "fd40::/48")
    return NodeView(
        family=family,
        addresses=NODE_ADDRESSES[family],
        detector=PodCIDR(pods),
        node_port_ranges=(primary if mode is Mode.NFTABLES else everything,),
        service_cidrs=(prefix("10.112.0.0/16"),) if family is Family.IPV4 else (),
        name=NODE_NAME,
        ip=NODE_IP[family],
    )


def packet(text: str) -> Packet:
    """A packet in short: `P CIP:80`, `X VIP:53/UDP`, `10.65.7.99,eth0 NP`, `P CIP:0/ICMP`."""
    source, destination = text.split()
    source, _, interface = source.partition(",")
    if destination == "NP":
        destination = f"H:{NODE_PORT}"
    where, _, protocol = destination.partition("/")
    host, _, port = where.rpartition(":")
    host = host.strip("[]")
    return Packet(
        source=HOSTS.get(source, source),
        destination=HOSTS.get(host, host),
        protocol=None if protocol == "ICMP" else Protocol[protocol or "TCP"],
        port=int(port),
        interface=interface,
    )


NAMES = {address: name for name, (address, _) in ENDPOINTS.items()}


def shorthand(verdict: Verdict, port: int = 8080) -> str:
    """The verdict in short: `L1 R1`, `L1 masq`, `reject`, `drop`, `pass`, `proxy L1`."""
    if verdict.action not in {Action.FORWARD, Action.LOCAL_PROXY}:
        return str(verdict.action.value)
    words = ["proxy"] if verdict.action is Action.LOCAL_PROXY else []
    for choice in verdict.choices:
        name = NAMES.get(choice.backend.address, choice.backend.address)
        words.append(name if choice.backend.port == port else f"{name}:{choice.backend.port}")
    masquerade = {choice.masquerade for choice in verdict.choices}
    if verdict.action is Action.FORWARD and masquerade == {True}:
        words.append("masq")
    elif len(masquerade) > 1:
        words.append("mixed")
    assert sum(choice.share for choice in verdict.choices) == 1
    return str(" ".join(words))


CART = ObjectKey("shop", "cart")
