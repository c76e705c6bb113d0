"""Clusters, nodes and packets of every kind, for properties of the dataplane."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from operator import add
from typing import cast

from hypothesis import strategies as st
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.table.build import Builder
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import LOOPBACK, NodeView, PodCIDR, PodInterface
from property.clusters import ADDRESSES, CLUSTER_IPS, Change, changes, services
from world import NODE_ADDRESSES, NODE_IP, Mode, node, prefix, seen_by

families = st.sampled_from(Family)
balances = st.sampled_from(Balance)

PODS = {Family.IPV4: prefix("10.64.0.0/14"), Family.IPV6: prefix("fd40::/48")}
SERVICES = {Family.IPV4: prefix("10.112.0.0/16"), Family.IPV6: prefix("fd12::/108")}
EVERYWHERE = {Family.IPV4: prefix("0.0.0.0/0"), Family.IPV6: prefix("::/0")}
OUTSIDE = {
    Family.IPV4: ("192.0.2.50", "192.0.2.200", "10.66.9.99", "203.0.113.7"),
    Family.IPV6: ("2001:db8:ff::9", "2001:db8::7"),
}
ELSEWHERE = {Family.IPV4: "10.112.0.77", Family.IPV6: "fd12::77"}


PORTS = [
    {"name": name, "protocol": protocol, "port": port}
    for name, port in (("", 8080), ("http", 8080), ("dns", 53))
    for protocol in Protocol.__members__
]


@st.composite
def _serving(draw: st.DrawFn, name: str, family: Family) -> Change:
    """A slice with every port that a Service here can have: all that is in it serves."""
    endpoints = draw(st.lists(_endpoints(family), min_size=1, max_size=4))
    document = {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"kubernetes.io/service-name": name[0]},
        },
        "addressType": family.value,
        "ports": PORTS,
        "endpoints": endpoints,
    }
    key = ObjectKey("shop", name)
    return Kind.ENDPOINT_SLICE, key, convert(Kind.ENDPOINT_SLICE, document)


def _endpoints(family: Family) -> st.SearchStrategy[dict[str, object]]:
    addresses = st.sampled_from(ADDRESSES[family.value])
    ready = {"ready": True}
    draining = {"ready": False, "serving": True, "terminating": True}
    return st.fixed_dictionaries(
        {
            "addresses": addresses.map(lambda address: [address]),
            "nodeName": st.sampled_from(("kestrel", "heron", None)),
            "conditions": st.sampled_from((ready, ready, ready, draining, {"ready": False})),
        }
    )


@st.composite
def _present(draw: st.DrawFn, name: str, family: Family) -> Change:
    """A Service that is proxied in the family."""
    document = draw(services(name))
    cluster_ip = draw(st.sampled_from(CLUSTER_IPS[family.value]))
    spec = dict(cast("Mapping[str, object]", document["spec"]))
    spec |= {"clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ipFamilies": [family.value]}
    spec["type"] = draw(st.sampled_from(("NodePort", "LoadBalancer")))
    service = convert(Kind.SERVICE, {**document, "spec": spec})
    return Kind.SERVICE, ObjectKey("shop", name), service


def _members(family: Family) -> list[st.SearchStrategy[Change]]:
    return [
        *(_present(name, family) for name in "abc"),
        *(_serving(name, family) for name in ("a-1", "a-2", "b-1", "c-1")),
    ]


def clusters(family: Family) -> st.SearchStrategy[list[Change]]:
    """Services that have endpoints, and then some more events."""
    members = st.tuples(*_members(family)).map(list)
    return st.builds(add, members, st.lists(changes(), max_size=4))


def events(family: Family) -> st.SearchStrategy[list[Change]]:
    """Services and endpoints that come, change and go."""
    return st.lists(st.one_of(*_members(family), changes()), min_size=1, max_size=12)


@st.composite
def nodes(draw: st.DrawFn, family: Family) -> NodeView:
    """Kestrel with any settings."""
    primary = node(Mode.NFTABLES, family).node_port_ranges
    ranges = ((), primary, (EVERYWHERE[family],), (*primary, LOOPBACK[family]))
    detectors = (
        None,
        PodCIDR(PODS[family]),
        PodInterface("cni0"),
        PodInterface("cni", prefix=True),
    )
    return NodeView(
        family=family,
        addresses=NODE_ADDRESSES[family],
        detector=draw(st.sampled_from(detectors)),
        masquerade_all=draw(st.integers(0, 3)) == 0,
        node_port_ranges=draw(st.sampled_from(ranges)),
        service_cidrs=draw(st.sampled_from(((), (SERVICES[family],)))),
        localhost_gate=draw(st.booleans()),
    )


def tables(
    history: Sequence[Change], family: Family, balance: Balance = Balance.RANDOM
) -> Iterator[Table]:
    """The table after each event; the same object, which changes."""
    cluster = Cluster("kestrel")
    builder = Builder(family)
    for kind, key, obj in history:
        touched = cluster.delete(kind, key) if obj is None else cluster.upsert(kind, obj)
        services = [service for each, service in touched.services if each is family]
        builder.update(cluster, services, replace(seen_by(cluster, family), balance=balance))
        yield builder.table


def last_table(
    history: Sequence[Change], family: Family, balance: Balance = Balance.RANDOM
) -> Table:
    """The table after all events."""
    *_, table = tables(history, family, balance)
    return table


Destination = tuple[str, Protocol | None, int]


def packets(table: Table, here: NodeView) -> Iterator[Packet]:
    """First packets from everywhere to all that the table knows, and to some that it does not."""
    family = here.family
    cluster_ip = CLUSTER_IPS[family.value][0]
    destinations: set[Destination] = {
        (ELSEWHERE[family], Protocol.TCP, 80),
        (cluster_ip, Protocol.UDP, 443),
        (cluster_ip, None, 0),
        (NODE_IP[family], Protocol.TCP, 31080),
        (ADDRESSES[family.value][0], Protocol.TCP, 8080),  # an endpoint itself
    }
    for address, protocol, port in chain(*(each.keys() for each in table.entries.values())):
        dialled = [address] if address else here.addresses
        destinations.update((each, protocol, port) for each in dialled)
    pods = (ADDRESSES[family.value][0], ADDRESSES[family.value][2])
    senders = [
        *((pod, "cni0") for pod in pods),
        *((outsider, "eth0") for outsider in OUTSIDE[family]),
        (NODE_IP[family], ""),
    ]
    for (source, interface), (to, protocol_, port) in product(
        senders, sorted(destinations, key=str)
    ):
        if here.is_loopback(to) and not here.is_own(source):
            continue  # the kernel drops what comes to a loopback address from outside
        yield Packet(source, to, protocol_, port, interface)


def of_two_minds(table: Table) -> set[str]:
    """Addresses of which the cluster contradicts itself, and decide() and the program differ.

    An endpoint that one slice puts on this node and another does not: the program, as upstream's,
    has one set of endpoints that reach themselves, where decide() asks the service. A cluster IP
    that is also an external IP of another service: the program, as upstream's, treats all that
    goes to the address as cluster-IP traffic.
    """
    local: dict[tuple[str, int, Protocol], set[bool]] = {}
    kinds: dict[str, set[bool]] = {}
    for entry in table.entries.values():
        for backend in (*entry.cluster, *entry.local):
            key = (backend.address, backend.port, entry.protocol)
            local.setdefault(key, set()).add(backend.local)
        for frontend in map(entry.find, entry.keys()):
            assert frontend is not None
            kinds.setdefault(frontend.address, set()).add(frontend.kind.external)
    endpoints = {address for (address, _, _), minds in local.items() if len(minds) > 1}
    return endpoints | {address for address, minds in kinds.items() if len(minds) > 1}
