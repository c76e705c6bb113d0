"""What must hold of the plan for every change: it names what differs, and nothing else."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import world
from kubeproxy.base.inet import Family, family_of
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import resolve
from kubeproxy.config.load import complete
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.plan.compare import address_notices, service_plan, sides, touched
from kubeproxy.plan.outcome import Effect, Outcome, effects, outcome_of
from kubeproxy.plan.side import Setup, Side, side
from kubeproxy.plan.wire import Notice, ServicePlan
from kubeproxy.table.decide import Packet, classify, decide
from kubeproxy.table.entries import FrontendKey
from kubeproxy.table.policy import Source
from property.clusters import ADDRESSES, Change, changes
from world import NODE_ADDRESSES, Document, Mode, endpoint_slice, service

FLAGS = ("--cluster-cidr=10.64.0.0/14,fd40::/48",)
CLIENTS = {
    Family.IPV4: (
        *("10.64.3.50", "198.51.100.10", "192.0.2.50", "192.0.2.200", "198.51.100.200"),
        *ADDRESSES["IPv4"],
    ),
    Family.IPV6: (
        *("fd40::50", "2001:db8:aa::10", "2001:db8:ff::50"),
        *ADDRESSES["IPv6"],
    ),
}
CLASSES = {Source.POD: "pods", Source.HOST: "this node", Source.OUTSIDE: "outside"}
histories = st.lists(changes(), min_size=4, max_size=20)


def cluster_of(history: Sequence[Change]) -> Cluster:
    cluster = Cluster("kestrel")
    for kind, key, obj in history:
        if obj is None:
            cluster.delete(kind, key)
        else:
            cluster.upsert(kind, obj)
    return cluster


@st.composite
def shops(draw: st.DrawFn) -> list[Document]:
    """Two Services whose addresses, node ports and source ranges meet."""
    documents: list[Document] = []
    for number, name in enumerate(("cart", "rival")):
        ports = {"port": draw(st.sampled_from((80, 31080)))}
        ports["nodePort"] = draw(st.sampled_from((0, 80, 31080 + number)))
        spec: Document = {
            "type": "LoadBalancer",
            "clusterIP": f"10.112.0.{number + 1}",
            "ports": [{"name": "http", **ports}],
            "externalIPs": draw(st.sampled_from(([], ["198.51.100.10"]))),
            "externalTrafficPolicy": draw(st.sampled_from(("Local", "Cluster"))),
            "loadBalancerSourceRanges": draw(st.sampled_from(RANGES)),
        }
        labels = {"kubernetes.io/service-name": name}
        metadata = {"namespace": "shop", "name": f"{name}-1", "labels": labels}
        slice_ = endpoint_slice(draw(st.sampled_from(("", "L1", "R1", "L1 R1"))))
        vip = f"203.0.113.{number + 1}"
        documents += [service(spec, name=name, vips=[vip]), {**slice_, "metadata": metadata}]
    return documents


RANGES = ((), ("192.0.2.0/25",), ("198.51.100.128/25",), ("192.0.2.0/24", "198.51.100.128/25"))


@given(shops(), shops(), st.sampled_from(Mode))
def test_services_whose_addresses_and_ranges_meet(
    one: Sequence[Document], other: Sequence[Document], mode: Mode
) -> None:
    half = [*one[:2], *other[2:]]  # of two Services, one stays as it is
    before, between, after = (
        side(world.cluster_of(*each), setup_in(mode)) for each in (one, half, other)
    )
    assert_named(before, between)
    assert_named(before, after)


def setup_in(mode: Mode) -> Setup:
    loaded = complete(parse_flags([f"--proxy-mode={mode.value}", *FLAGS]), None, MODES)
    gates, _ = resolve({})
    return Setup(loaded.config, gates, load_mode(mode.value), NODE_ADDRESSES)


def plans(before: Side, after: Side) -> tuple[list[ServicePlan], list[Notice]]:
    both = sides(before, after)
    services = touched(both)
    found = [service_plan(both, name, ports) for name, ports in services.items()]
    return found, address_notices(both, services.values())


def as_sent(packet: Packet, side_: Side) -> Packet:
    """The node sends from the address that it dials, where that is its own or bound to it."""
    family = family_of(packet.destination)
    is_bound = side_.mode.quirks.binds_addresses
    is_bound = is_bound and side_.tables[family].is_service_ip(packet.destination)
    if side_.nodes[family].is_own(packet.source) and is_bound:
        return replace(packet, source=packet.destination)
    return packet


def outcome(side_: Side, packet: Packet) -> Outcome:
    family = family_of(packet.destination)
    verdict = decide(packet, side_.tables[family], side_.nodes[family], side_.mode.quirks)
    return outcome_of(verdict)


def destinations(found: Sequence[Side], family: Family) -> Iterator[FrontendKey]:
    """Every frontend of either side, node ports at every address of the node."""
    for each in found:
        for entry in each.tables[family].entries.values():
            for key in map(entry.key, entry.frontends):
                if key.address:
                    yield key
                else:
                    for address in NODE_ADDRESSES[family]:
                        yield FrontendKey(address, key.protocol, key.port)


def senders(at: FrontendKey, family: Family) -> tuple[str, ...]:
    """Loopback addresses reach each other, and nothing else."""
    loopback = NODE_ADDRESSES[family][0]
    return (loopback,) if at.address == loopback else CLIENTS[family]


@given(histories, st.sampled_from(Mode))
def test_the_plan_of_no_change_is_empty(history: Sequence[Change], mode: Mode) -> None:
    setup = setup_in(mode)
    one, other = (side(cluster_of(history), setup) for _ in range(2))
    services, addresses = plans(one, other)
    assert [each for each in services if not each.is_empty] == []
    assert addresses == []


@given(histories, histories, st.sampled_from(Mode))
def test_the_plan_names_every_frontend_that_differs(
    history: Sequence[Change], more: Sequence[Change], mode: Mode
) -> None:
    setup = setup_in(mode)
    before, after = side(cluster_of(history), setup), side(cluster_of([*history, *more]), setup)
    assert_named(before, after)


@given(histories, st.sampled_from(Mode), st.sampled_from(Mode))
def test_the_plan_of_another_mode_names_every_frontend_that_differs(
    history: Sequence[Change], one: Mode, other: Mode
) -> None:
    cluster = cluster_of(history)
    before, after = side(cluster, setup_in(one)), side(cluster, setup_in(other))
    assert_named(before, after)


def assert_named(before: Side, after: Side) -> None:
    """Every effect on every client, at every frontend: an endpoint meets itself, so any does."""
    services, _ = plans(before, after)
    named = [each for service in services for each in service.notices]
    endpoints = {address for addresses in ADDRESSES.values() for address in addresses}
    for family in Family:
        for at in destinations([before, after], family):
            for source in senders(at, family):
                packet = Packet(source, at.address, at.protocol, at.port)
                was, is_ = (outcome(each, as_sent(packet, each)) for each in (before, after))
                found = _effects_at(named, at, CLASSES[classify(packet, after.nodes[family])])
                missing = {*effects(was, is_)} - found
                if source in endpoints:
                    assert not missing or found, (source, str(at), missing, found)
                else:
                    assert not missing, (source, str(at), missing, found)


def _effects_at(named: Sequence[Notice], at: FrontendKey, clients: str) -> set[Effect]:
    """What the plan says of these clients at a destination."""
    return {
        notice.effect
        for notice in named
        if any(each.startswith(clients) for each in notice.clients)
        and any(_is_at(text, at) for text in notice.at)
    }


def _is_at(text: str, at: FrontendKey) -> bool:
    """Addresses of the node that are alike are named by one of them."""
    place, alike, _ = text.partition(" and ")
    own = NODE_ADDRESSES[Family.IPV4] + NODE_ADDRESSES[Family.IPV6]
    if alike and at.address in own:
        return place.rpartition(":")[2] == str(at).rpartition(":")[2]
    return place == str(at)
