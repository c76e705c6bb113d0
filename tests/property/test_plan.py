"""What must hold of the plan for every change: it names what differs, and nothing else."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family, family_of
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import resolve
from kubeproxy.config.load import complete
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.plan.compare import address_notices, service_plan, sides, touched
from kubeproxy.plan.outcome import Outcome, outcome_of
from kubeproxy.plan.side import Setup, Side, side
from kubeproxy.plan.wire import Notice, ServicePlan
from kubeproxy.table.decide import Packet, decide
from kubeproxy.table.entries import FrontendKey
from property.clusters import ADDRESSES, Change, changes
from world import NODE_ADDRESSES, Mode

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
histories = st.lists(changes(), min_size=3, max_size=12)


def cluster_of(history: Sequence[Change]) -> Cluster:
    cluster = Cluster("kestrel")
    for kind, key, obj in history:
        if obj is None:
            cluster.delete(kind, key)
        else:
            cluster.upsert(kind, obj)
    return cluster


def setup_in(mode: Mode) -> Setup:
    loaded = complete(parse_flags([f"--proxy-mode={mode.value}", *FLAGS]), None, MODES)
    gates, _ = resolve({})
    return Setup(loaded.config, gates, load_mode(mode.value), NODE_ADDRESSES)


def plans(before: Side, after: Side) -> tuple[list[ServicePlan], list[Notice]]:
    both = sides(before, after)
    services = touched(both)
    found = [service_plan(both, name, ports) for name, ports in services.items()]
    return found, address_notices(both, services.values())


def outcome(side_: Side, packet: Packet) -> Outcome:
    family = family_of(packet.destination)
    verdict = decide(packet, side_.tables[family], side_.nodes[family], side_.mode.quirks)
    return outcome_of(verdict)


def visible(found: Outcome) -> tuple[object, ...]:
    return found.action, found.endpoints, found.hidden, found.affinity, found.healing


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
    services, _ = plans(before, after)
    named = " ".join(at for each in services for notice in each.notices for at in notice.at)
    for family in Family:
        for at in destinations([before, after], family):
            for source in senders(at, family):
                packet = Packet(source, at.address, at.protocol, at.port)
                was, is_ = outcome(before, packet), outcome(after, packet)
                if visible(was) != visible(is_):
                    assert _is_named(at, named, family), (source, str(at), was, is_)


def _is_named(at: FrontendKey, named: str, family: Family) -> bool:
    """Addresses of the node that are alike are named by one of them."""
    alike = [FrontendKey(each, at.protocol, at.port) for each in NODE_ADDRESSES[family]]
    return str(at) in named or any(
        f"{each} and 1 more" in named or str(each) in named for each in alike if at in alike
    )
