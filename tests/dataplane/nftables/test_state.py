"""What is programmed follows the table, whatever the path, on a kernel that refuses mistakes."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.nftables.generated import (
    balances,
    clusters,
    events,
    families,
    last_table,
    nodes,
    packets,
    tables,
)
from dataplane.nftables.programming import Rig, by_chains, filled, table_with, with_node
from dataplane.nftables.walk import outcomes
from fakes.ruleset import KernelTable, span
from kubeproxy.base.inet import Family, Prefix, Protocol, pack
from kubeproxy.dataplane.nftables import batch as batch_module
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import Batch, batch_messages
from kubeproxy.dataplane.nftables.elements import slot_bytes
from kubeproxy.dataplane.nftables.state import Programmed, reconcile
from kubeproxy.table.diff import diff, list_changes
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
    Table,
)
from kubeproxy.table.node import NodeView
from property.clusters import Change
from world import CLUSTER_IP, VIP, Mode, endpoint_slice, everywhere, node, table_of

LISTS = {
    names.SERVICE_ENDPOINTS,
    names.SERVICE_LOCAL_ENDPOINTS,
    names.NODEPORT_ENDPOINTS,
    names.NODEPORT_LOCAL_ENDPOINTS,
}
NUMBERS = {names.SERVICE_AFFINITY, names.NODEPORT_AFFINITY}
HERE = node(Mode.NFTABLES)


def meaning(table: KernelTable) -> tuple[object, object, object, object]:
    """The elements, but for what the path decides: the order of a list, the numbers.

    Lists as their members, numbers of services as which frontends share one, those of choices as
    their chains, source ranges as those of a frontend, and all the rest as it is.
    """
    lists: dict[tuple[str, bytes], Counter[bytes]] = defaultdict(Counter)
    places: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)
    services: dict[bytes, set[tuple[str, bytes]]] = defaultdict(set)
    allowed: dict[bytes, set[tuple[bytes, bytes]]] = defaultdict(set)
    guarded: dict[bytes, bytes] = {}
    rest = {}
    for name, elements in by_chains(table.elements()).items():
        for each, data in elements.items():
            if name in LISTS:
                lists[name, each[:-4]][data] += 1
                places[name, each[:-4]].add(each[-4:])
            elif name in NUMBERS:
                services[data].add((name, each))
            elif name == names.FIREWALL_IPS:
                guarded[each] = data[-4:][::-1]
            elif name == names.FIREWALL_SOURCES:
                first, last = span(each)
                allowed[first[:4]].add((first[4:], last[4:]))
            else:
                rest[name, each] = data
    for key, taken in places.items():
        assert taken == {slot_bytes(index) for index in range(lists[key].total())}
    assert allowed.keys() <= set(guarded.values())
    sources = {frontend: allowed[number] for frontend, number in guarded.items()}
    shared = {frozenset(frontends) for frontends in services.values()}
    return dict(lists), shared, sources, rest


def changes_of(node: NodeView) -> tuple[NodeView, ...]:
    """The node as it may become while the proxy runs: other addresses, other service ranges."""
    more = (*node.service_cidrs, Prefix("10.120.0.0", 16), Prefix("10.113.0.0", 16))
    if node.family is Family.IPV6:
        more = (*node.service_cidrs, Prefix("fd13::", 108), Prefix("fd12::100:0", 104))
    return (
        node,
        with_node(node, addresses=node.addresses[:2]),
        with_node(node, service_cidrs=more),
        with_node(node, service_cidrs=more[-1:], addresses=node.addresses[1:]),
    )


def follow(rig: Rig, history: Sequence[Change], balance: Balance, data: st.DataObject) -> Table:
    """A partial sync after every event, now and then with known lists; the table at the end."""
    family = rig.node.family
    choices = changes_of(rig.node)
    last = Table(family)
    rig.fill(last)
    for table in tables(history, family, balance):
        changes = diff(last, table)
        if data.draw(st.booleans()):
            lists = {after.name: list_changes(before, after) for before, after in changes.changed}
            changes = msgspec.structs.replace(changes, lists=lists)
        rig.change(changes, data.draw(st.sampled_from(choices)))
        last = table_with(*table.entries.values(), family=family)
    return last


@settings(max_examples=40)
@given(st.data(), families, balances)
def test_partial_syncs_lead_to_what_a_full_one_from_nothing_makes(
    data: st.DataObject, family: Family, balance: Balance
) -> None:
    rig = Rig(data.draw(nodes(family)), heals=True)
    table = follow(rig, data.draw(clusters(family)) + data.draw(events(family)), balance, data)
    fresh = filled(table, rig.node, heals=True)
    assert meaning(fresh.table) == meaning(rig.table)
    assert fresh.state.used == rig.state.used
    assert rig.state.used.keys() == {chain.name for chain in rig.needed_chains()}


@settings(max_examples=30)
@given(st.data(), families)
def test_after_a_restart_nothing_is_written_and_nothing_moves(
    data: st.DataObject, family: Family
) -> None:
    rig = Rig(data.draw(nodes(family)), heals=True)
    history = data.draw(clusters(family)) + data.draw(events(family))
    table = follow(rig, history, Balance.RANDOM, data)
    elements = rig.table.elements()
    assert rig.fill(table, prune=False) == Batch()
    assert elements == rig.table.elements()


@settings(max_examples=30)
@given(st.data(), families)
def test_a_restart_finds_what_changed_meanwhile(data: st.DataObject, family: Family) -> None:
    first = data.draw(clusters(family))
    rig = filled(last_table(first, family), data.draw(nodes(family)), heals=True)
    table = last_table(first + data.draw(events(family)), family)
    rig.fill(table)
    fresh = filled(table, rig.node, heals=True)
    assert meaning(fresh.table) == meaning(rig.table)
    assert fresh.table.chains.keys() == rig.table.chains.keys()
    assert not _shared_numbers(rig.state)


def _shared_numbers(state: Programmed) -> list[int]:
    """Numbers by which two services would share their clients."""
    numbers = Counter(placed.number for placed in state.placed.values() if placed.number)
    return [number for number, count in numbers.items() if count > 1]


def entry(name: str, *frontends: Frontend, backends: str = "ab", **fields: object) -> Entry:
    """A TCP service port with the backends 10.64.3.97 and so on, all served from here."""
    served = tuple(Backend(f"10.64.3.{ord(each)}", 8080) for each in backends)
    fields = {"cluster": served, "has_endpoints": bool(served), **fields}
    return Entry(ServicePortName("shop", name, "", Protocol.TCP), frontends, **fields)  # type: ignore[arg-type]  # as given


CLUSTER = Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 80)
OTHER = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.22", 80)
EXTERNAL = Frontend(FrontendKind.EXTERNAL_IP, "198.18.0.5", 80)


def test_a_frontend_that_moved_during_a_restart_does_not_take_its_clients_along() -> None:
    rig = filled(table_with(entry("a", CLUSTER, EXTERNAL, affinity_seconds=60)), HERE, heals=True)
    moved = table_with(
        entry("a", CLUSTER, affinity_seconds=60),
        entry("b", OTHER, EXTERNAL, affinity_seconds=60, backends="xy"),
    )
    rig.fill(moved)
    assert not _shared_numbers(rig.state)
    assert meaning(filled(moved, HERE, heals=True).table) == meaning(rig.table)


GUARDED = everywhere(
    {
        "sessionAffinity": "ClientIP",
        "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["192.0.2.0/25"],
    }
)
SETTLED = table_of(GUARDED, endpoint_slice("L1 L2 L3 L4 R1 R2"))
SHRUNK = table_of(GUARDED, endpoint_slice("L2 L3 R1"))


@st.composite
def meddlings(draw: st.DrawFn, table: KernelTable) -> tuple[int, int]:
    """Another program changes elements; how many are then to be deleted and added.

    Of the lists only the first ones are harmed: the others show what the places were.
    """
    first = {names.SERVICE_ENDPOINTS: CLUSTER_IP, names.SERVICE_LOCAL_ENDPOINTS: VIP}
    elements = [
        (name, each)
        for name, set_ in table.sets.items()
        for each in set_.elements
        if name not in LISTS or (name in first and pack(first[name]) in each)
    ]
    deletions = additions = 0
    copied: set[str] = set()
    for name, each in draw(st.lists(st.sampled_from(elements), unique=True, max_size=5)):
        held = table.sets[name].elements
        if draw(st.booleans()):
            del held[each]
            additions += 1
        elif held[each] and name not in NUMBERS:
            others = [_foreign(held[each])]
            if name not in copied:  # two that are swapped are as good as the list of before
                others += sorted(set(held.values()) - {held[each]})
                copied.add(name)
            held[each] = draw(st.sampled_from(others))
            deletions += 1
            additions += 1
        else:
            stranger = each[:-1] + bytes([each[-1] ^ 1])
            if stranger not in held:
                held[stranger] = held[each]
                deletions += 1
    return deletions, additions


def _foreign(data: bytes) -> bytes:
    """Data of the same size that is never written here."""
    return data[:-4] + bytes([1, 2, 0, 0]) if len(data) == 16 else data


@cache
def settled() -> Rig:
    """A kernel in which the places are those of a history."""
    rig = filled(SETTLED, HERE, heals=True)
    rig.change(diff(SETTLED, SHRUNK))
    rig.change(diff(SHRUNK, SETTLED))
    rig.fill(SETTLED)
    return rig


@given(st.data())
def test_what_another_program_changed_is_repaired_and_nothing_else(data: st.DataObject) -> None:
    rig = settled().copy()
    expected = meaning(rig.table)
    deletions, additions = data.draw(meddlings(rig.table))
    batch = rig.fill(SETTLED)
    assert expected == meaning(rig.table)
    assert sum(map(len, batch.deleted.values())) <= deletions
    added = {n: each for n, each in batch.added.items() if n not in names.RANGE_SETS}
    assert sum(map(len, added.values())) <= additions
    assert not batch.chains
    assert rig.fill(SETTLED) == Batch()


@settings(max_examples=8)
@given(st.data(), families)
def test_a_first_fill_is_right_at_every_moment(data: st.DataObject, family: Family) -> None:
    """However it is cut into transactions, a packet gets what it will get at the end, or nothing.

    That means: no frontend leads to an empty place, lets in a source that it should not, or leaves
    a source address that it will rewrite.
    """
    here = data.draw(nodes(family))
    table = last_table(data.draw(clusters(family)), family)
    finished = filled(table, here, heals=True).machine()
    final = {packet: outcomes(finished, packet) for packet in list(packets(table, here))[::3]}
    rig = Rig(here, heals=True)
    for message in _messages_of_a_few_elements(rig, table):
        rig.kernel.commit([message])
        now = msgspec.structs.replace(finished, elements=rig.table.elements())
        for packet, fates in final.items():
            forwarded = {fate for fate in outcomes(now, packet) if fate.target}
            assert forwarded in (set(), fates.keys()), packet
    assert rig.table.elements() == finished.elements


def _messages_of_a_few_elements(rig: Rig, table: Table) -> list[bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_module, "_LARGEST", 150)
        state = Programmed(rig.program, rig.node, chains=set(rig.table.chains))
        done = reconcile(state, table.entries.values(), {}, rig.node)
        return batch_messages(rig.program, done.batch)
