"""What the Go kube-proxy does to its table in nftables mode, as scripts for nft.

It is a model for those who take the table over from it, and give it back. The order is kept,
because it decides what can be deleted: chains that upstream made in an earlier sync, and knows by
the slash in their names, are emptied last, long after sets were deleted. True of the releases
1.31 to 1.38, which differ in their hooks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address, ip_network

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.table.entries import Backend
from lab.listing import KEYWORD
from lab.namespaces import Namespace

PODS = {Family.IPV4: "10.64.0.0/14", Family.IPV6: "fd40::/48"}
_ADDRESS = {Family.IPV4: "ipv4_addr", Family.IPV6: "ipv6_addr"}
_NOT_LOOPBACK = {Family.IPV4: "ip daddr != 127.0.0.0/8", Family.IPV6: "ip6 daddr != ::1"}
_MARK = "meta mark set meta mark or 0x4000"
_CONTAINERS = (
    *("set cluster-ips", "map service-ips", "map firewall-ips", "map no-endpoint-services"),
    *("map no-endpoint-nodeports", "map service-nodeports", "set hairpin-connections"),
)
_CHAINS = (
    *("nodeport-endpoints-check", "service-endpoints-check", "firewall-check", "services"),
    *("masquerading", "cluster-ips-check", "reject-chain", "mark-for-masquerade"),
)


class Release(msgspec.Struct, frozen=True):
    """The hooks of a release, and which chain checks where: base chains and jumps by name."""

    hooks: dict[str, str]
    jumps: tuple[tuple[str, str], ...]


_NAT = {
    "nat-prerouting": "type nat hook prerouting priority dstnat",
    "nat-output": "type nat hook output priority -100",
    "nat-postrouting": "type nat hook postrouting priority srcnat",
}
_TO_CHAINS = (
    ("filter-input", "nodeport-endpoints-check"),
    ("filter-input", "service-endpoints-check"),
    ("filter-forward", "service-endpoints-check"),
    ("filter-output", "service-endpoints-check"),
    ("filter-forward", "cluster-ips-check"),
)
UP_TO_1_32 = Release(
    {
        "filter-prerouting": "type filter hook prerouting priority dstnat - 10",
        "filter-input": "type filter hook input priority -110",
        "filter-forward": "type filter hook forward priority -110",
        "filter-output": "type filter hook output priority -110",
        "filter-output-post-dnat": "type filter hook output priority -90",
        **_NAT,
    },
    (
        *_TO_CHAINS,
        ("filter-prerouting", "firewall-check"),
        ("filter-output", "firewall-check"),
        ("filter-output-post-dnat", "cluster-ips-check"),
    ),
)
SINCE_1_33 = Release(
    {
        "filter-prerouting-pre-dnat": "type filter hook prerouting priority dstnat - 10",
        "filter-output-pre-dnat": "type filter hook output priority -110",
        "filter-input": "type filter hook input priority filter",
        "filter-forward": "type filter hook forward priority filter",
        "filter-output": "type filter hook output priority filter",
        **_NAT,
    },
    (
        *_TO_CHAINS,
        ("filter-prerouting-pre-dnat", "firewall-check"),
        ("filter-output-pre-dnat", "firewall-check"),
        ("filter-output", "cluster-ips-check"),
    ),
)


class Service(msgspec.Struct, frozen=True):
    """A service with a cluster IP and a node port, one port, and policy Cluster."""

    name: str
    address: str
    node_port: int
    backends: tuple[Backend, ...]


class Upstream(msgspec.Struct, frozen=True):
    """One family of the Go kube-proxy.

    `node_port_addresses` are those of the node that accept node ports; None when all do.
    """

    family: Family
    release: Release
    node_port_addresses: tuple[str, ...] | None


def accepting(
    family: Family, ranges: Iterable[str], addresses: Sequence[str]
) -> tuple[str, ...] | None:
    """`nodePortAddresses` as upstream takes it: no range of the family means every address."""
    version = 4 if family is Family.IPV4 else 6
    own = [network for each in ranges if (network := ip_network(each)).version == version]
    if not own or any(network.prefixlen == 0 for network in own):
        return None
    return tuple(a for a in addresses if any(ip_address(a) in network for network in own))


def names(node: Namespace, family: Family, kind: str) -> list[str]:
    """The chains, sets or maps that the table has."""
    listed = node.run(["nft", "--terse", "list", "table", KEYWORD[family], "kube-proxy"])
    return re.findall(rf"^\t{kind} (\S+) {{", listed, re.MULTILINE)


def start(upstream: Upstream, services: Iterable[Service], node: Namespace) -> str:
    """The first transaction of a process, over whatever the table has."""
    table = f"{KEYWORD[upstream.family]} kube-proxy"
    node.run(["nft", "add", "table", *table.split()])
    chains = names(node, upstream.family, "chain")
    sets = names(node, upstream.family, "set")
    wanted = list(services)
    active = [chain for service in wanted for chain in _chains(service)]
    return "\n".join(
        [
            *_hooks(upstream, table),
            *_fixed(upstream, table),
            *_node_ports(upstream, table),
            *_loopback(table),
            *(f"flush {each.replace(' ', f' {table} ', 1)}" for each in _CONTAINERS),
            *(line for service in wanted for line in add(upstream, service)),
            *(f"flush chain {table} {c}" for c in chains if "/" in c and c not in active),
            *(f"delete set {table} {name}" for name in sets if name.startswith("affinity-")),
        ]
    )


def later(upstream: Upstream, services: Iterable[Service], node: Namespace) -> str:
    """What a sync of a second later or more begins with: emptied chains are deleted."""
    table = f"{KEYWORD[upstream.family]} kube-proxy"
    active = {chain for service in services for chain in _chains(service)}
    chains = names(node, upstream.family, "chain")
    stale = [chain for chain in chains if "/" in chain and chain not in active]
    return "\n".join(f"delete chain {table} {chain}" for chain in stale)


def _hooks(upstream: Upstream, table: str) -> Iterator[str]:
    yield f'add table {table} {{ comment "rules for kube-proxy" ; }}'
    for name in upstream.release.hooks:
        yield f"add chain {table} {name}"
        yield f"delete chain {table} {name}"
    for name, hook in upstream.release.hooks.items():
        yield f"add chain {table} {name} {{ {hook} ; }}"
    for name in _CHAINS:
        yield f"add chain {table} {name}"
        yield f"flush chain {table} {name}"
    for source, target in upstream.release.jumps:
        yield f"add rule {table} {source} ct state new jump {target}"
    for source in ("nat-output", "nat-prerouting"):
        yield f"add rule {table} {source} jump services"
    yield f"add rule {table} nat-postrouting jump masquerading"


def _fixed(upstream: Upstream, table: str) -> Iterator[str]:
    """Sets and maps, and the rules that depend on no setting of ours."""
    ip, address = KEYWORD[upstream.family], _ADDRESS[upstream.family]
    frontend = f"{ip} daddr . meta l4proto . th dport"
    key = f"type {address} . inet_proto . inet_service"
    yield f"add set {table} hairpin-connections {{ type {address} . {key[5:]} ; }}"
    yield (
        f"add rule {table} masquerading meta mark & 0x4000 != 0 "
        "meta mark set meta mark xor 0x4000 masquerade fully-random"
    )
    yield (
        f"add rule {table} masquerading ct status dnat {ip} saddr . {frontend} "
        "@hairpin-connections masquerade fully-random"
    )
    yield f"add set {table} cluster-ips {{ type {address} ; }}"
    yield f"add rule {table} cluster-ips-check {ip} daddr @cluster-ips reject"
    for name in ("no-endpoint-services", "firewall-ips", "service-ips"):
        yield f"add map {table} {name} {{ {key} : verdict ; }}"
    for name in ("no-endpoint-nodeports", "service-nodeports"):
        yield f"add map {table} {name} {{ type inet_proto . inet_service : verdict ; }}"
    yield f"add rule {table} reject-chain reject"
    yield f"add rule {table} mark-for-masquerade {_MARK}"
    yield f"add rule {table} service-endpoints-check {frontend} vmap @no-endpoint-services"
    yield f"add rule {table} firewall-check {frontend} vmap @firewall-ips"
    pods = PODS[upstream.family]
    yield f"add rule {table} services {ip} daddr @cluster-ips {ip} saddr != {pods} {_MARK}"
    yield f"add rule {table} services {frontend} vmap @service-ips"


def _node_ports(upstream: Upstream, table: str) -> Iterator[str]:
    """The set of addresses is made to be filled, or to be deleted when all addresses accept."""
    ip, address = KEYWORD[upstream.family], _ADDRESS[upstream.family]
    accepting = upstream.node_port_addresses
    yield f"add set {table} nodeport-ips {{ type {address} ; }}"
    if accepting is None:
        yield f"delete set {table} nodeport-ips"
        own = _NOT_LOOPBACK[upstream.family]
    else:
        yield f"flush set {table} nodeport-ips"
        yield from (f"add element {table} nodeport-ips {{ {each} }}" for each in accepting)
        own = f"{ip} daddr @nodeport-ips"
    port = "meta l4proto . th dport"
    local = "fib daddr type local " if accepting is None else ""
    yield f"add rule {table} nodeport-endpoints-check {own} {port} vmap @no-endpoint-nodeports"
    yield f"add rule {table} services {local}{own} {port} vmap @service-nodeports"


def _loopback(table: str) -> Iterator[str]:
    """Without its feature gate, what belongs to node ports of the loopback address is deleted."""
    ports = "type inet_proto . inet_service : verdict"
    yield f"add map {table} localhost-nodeport-reject-ports {{ {ports} ; }}"
    yield f"delete map {table} localhost-nodeport-reject-ports"
    for protocol in ("tcp", "udp", "sctp"):
        for each in (
            "chain {} localhost-nodeport-reject-",
            "counter {} localhost-nodeport-rejected-",
        ):
            yield f"add {each.format(table)}{protocol}"
            yield f"delete {each.format(table)}{protocol}"


def add(upstream: Upstream, service: Service) -> list[str]:
    """What a sync adds for a service, whether it is the first or a later one."""
    ip = KEYWORD[upstream.family]
    table = f"{ip} kube-proxy"
    choose, outside = _chains(service)
    places = ", ".join(
        f"{place} : {backend.address} . {backend.port}"
        for place, backend in enumerate(service.backends)
    )
    drawn = f"numgen random mod {len(service.backends)} map {{ {places} }}"
    choice = f"meta l4proto tcp dnat {ip} to {drawn}"
    frontend = f"{service.address} . tcp . 80"
    return [
        *(
            f"{verb} chain {table} {name}"
            for name in (choose, outside)
            for verb in ("add", "flush")
        ),
        f"add rule {table} {choose} {choice}",
        f"add rule {table} {outside} {_MARK}",
        f"add rule {table} {outside} goto {choose}",
        f"add element {table} cluster-ips {{ {service.address} }}",
        f"add element {table} service-ips {{ {frontend} : goto {choose} }}",
        f"add element {table} service-nodeports {{ tcp . {service.node_port} : goto {outside} }}",
    ]


def _chains(service: Service) -> tuple[str, str]:
    """The chains of a service: for its cluster IP, and for clients from outside."""
    name = f"ULMVA6XW-shop/{service.name}/tcp/http"
    return f"service-{name}", f"external-{name}"
