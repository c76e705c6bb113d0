"""Clusters, nodes and packets of every kind, for properties of the dataplane."""

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec
from hypothesis import strategies as st

from kubeproxy.inet import Family, Protocol
from kubeproxy.model.cluster import Cluster
from kubeproxy.table.build import Builder
from kubeproxy.table.compile import Vantage
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import LOOPBACK, Mode, Node, PodCIDR, PodInterface
from property.clusters import ADDRESSES, CLUSTER_IPS, Told, tellings
from world import NODE_ADDRESSES, NODE_IP, node, prefix

histories = st.lists(tellings(), min_size=8, max_size=24)
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


@st.composite
def nodes(draw: st.DrawFn, family: Family) -> Node:
    """Kestrel with any settings."""
    primary = node(Mode.NFTABLES, family).node_port_ranges
    ranges = ((), primary, (EVERYWHERE[family],), (*primary, LOOPBACK[family]))
    detectors = (
        None,
        PodCIDR(PODS[family]),
        PodInterface("cni0"),
        PodInterface("cni", prefix=True),
    )
    return Node(
        family=family,
        addresses=NODE_ADDRESSES[family],
        detector=draw(st.sampled_from(detectors)),
        masquerade_all=draw(st.integers(0, 3)) == 0,
        node_port_ranges=draw(st.sampled_from(ranges)),
        service_cidrs=draw(st.sampled_from(((), (SERVICES[family],)))),
        localhost_gate=draw(st.booleans()),
    )


def tables(
    history: Sequence[Told], family: Family, balance: Balance = Balance.RANDOM
) -> Iterator[Table]:
    """The table after each event; the same object, which changes."""
    cluster = Cluster("kestrel")
    builder = Builder(family)
    for kind, key, obj in history:
        touched = cluster.delete(kind, key) if obj is None else cluster.upsert(kind, obj)
        services = [service for each, service in touched.services if each is family]
        builder.update(cluster, services, Vantage(cluster.place, NODE_IP[family], balance))
        yield builder.table


def last_table(
    history: Sequence[Told], family: Family, balance: Balance = Balance.RANDOM
) -> Table:
    """The table after all events."""
    *_, table = tables(history, family, balance)
    return table


def packets(table: Table, here: Node) -> Iterator[Packet]:
    """First packets from everywhere to all that the table knows, and to some that it does not."""
    family = here.family
    destinations = {
        (address, key.protocol, key.port)
        for entry in table.entries.values()
        for key in entry.keys()
        for address in ([key.address] if key.address else here.addresses)
    }
    others = (ELSEWHERE[family], CLUSTER_IPS[family.value][0], NODE_IP[family])
    destinations |= set(product(others, (Protocol.TCP, Protocol.UDP), (80, 443, 31080)))
    destinations |= {(address, None, 0) for address in others}
    pods = (ADDRESSES[family.value][0], ADDRESSES[family.value][2])
    senders = [
        *((pod, "cni0") for pod in pods),
        *((outsider, "eth0") for outsider in OUTSIDE[family]),
        (NODE_IP[family], ""),
    ]
    for (source, interface), (address, protocol, port) in product(senders, sorted_(destinations)):
        if here.is_loopback(address) and not here.is_own(source):
            continue  # the kernel drops what comes to a loopback address from outside
        yield Packet(source, address, protocol, port, interface)


def sorted_(
    destinations: set[tuple[str, Protocol | None, int]],
) -> list[tuple[str, Protocol | None, int]]:
    return sorted(destinations, key=lambda each: (each[0], each[1] or 0, each[2]))


def has_two_minds(table: Table) -> set[str]:
    """Addresses that one slice puts on this node and another does not: hairpin is then anyone's.

    The program has one set of endpoints that reach themselves, as upstream has; decide() asks the
    service. Only a cluster that contradicts itself shows the difference.
    """
    local: dict[tuple[str, int, Protocol], set[bool]] = {}
    for entry in table.entries.values():
        for backend in (*entry.cluster, *entry.local):
            key = (backend.address, backend.port, entry.protocol)
            local.setdefault(key, set()).add(backend.local)
    return {address for (address, _, _), minds in local.items() if len(minds) > 1}


__all__ = ["balances", "families", "histories", "last_table", "msgspec", "nodes", "packets"]
