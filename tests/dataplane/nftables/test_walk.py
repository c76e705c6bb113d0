"""The program means what decide() says.

All worked cases of the semantics are run once more: this module imports their tests, and has
every packet of nftables mode walk through the program as well.
"""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import table.test_worked_cases as worked
from dataplane.nftables.generated import (
    balances,
    clusters,
    families,
    last_table,
    nodes,
    of_two_minds,
    packets,
)
from dataplane.nftables.programming import filled
from dataplane.nftables.walk import End, Fate, Machine, outcomes
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.elements import head, tail
from kubeproxy.dataplane.nftables.names import AFFINITY, LOCAL_AFFINITY
from kubeproxy.table.decide import Action, Packet, Verdict, decide
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.quirks import Quirks
from table.test_worked_cases import *  # noqa: F403  # its tests are run again, with both eyes
from world import Mode, endpoint_slice, everywhere, node, packet, service, table_of

ENDS = {
    Action.PASS: End.ACCEPT,
    Action.LOCAL_PROXY: End.ACCEPT,  # the packet reaches a listener of this node
    Action.DROP: End.DROP,
    Action.REJECT: End.REJECT,
}


def expected(verdict: Verdict) -> dict[Fate, Fraction]:
    if verdict.action is not Action.FORWARD:
        return {Fate(ENDS[verdict.action]): Fraction(1)}
    return {
        Fate(End.ACCEPT, str(choice.backend), choice.masquerade): choice.share
        for choice in verdict.choices
    }


def walked(machine: Machine, packet: Packet) -> dict[Fate, Fraction]:
    """What the program does, but for what it remembers."""
    return {
        Fate(fate.end, fate.target, fate.masquerade): share
        for fate, share in outcomes(machine, packet).items()
    }


@pytest.fixture(autouse=True)
def _walk_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide_and_walk(packet: Packet, table: Table, node: NodeView, quirks: Quirks) -> Verdict:
        verdict = decide(packet, table, node, quirks)
        if quirks == Mode.NFTABLES.quirks:
            assert expected(verdict) == walked(filled(table, node, heals=True).machine(), packet)
        return verdict

    monkeypatch.setattr(worked, "decide", decide_and_walk)


@settings(max_examples=60)
@given(st.data(), families, balances)
def test_every_packet_of_every_cluster_is_treated_as_decide_says(
    data: st.DataObject, family: Family, balance: Balance
) -> None:
    here = data.draw(nodes(family))
    table = last_table(data.draw(clusters(family)), family, balance)
    machine = filled(table, here, heals=True).machine()
    undecided = of_two_minds(table)
    for sent in packets(table, here):
        if undecided.isdisjoint({sent.source, sent.destination}):
            verdict = decide(sent, table, here, Mode.NFTABLES.quirks)
            assert expected(verdict) == walked(machine, sent), sent


def test_an_endpoint_that_dials_itself_without_a_service_is_left_alone() -> None:
    machine = filled(
        table_of(service(), endpoint_slice("L1")), node(Mode.NFTABLES), heals=True
    ).machine()
    assert walked(machine, packet("L1 L1:8080")) == {Fate(End.ACCEPT): Fraction(1)}


# --- session affinity -------------------------------------------------------------------------


STICKY = {"sessionAffinity": "ClientIP"}


def pinned(machine: Machine, fate: Fate) -> Machine:
    """The kernel after a connection: it knows which endpoint the client got."""
    assert fate.pin is not None
    name, key, data, seconds = fate.pin
    assert seconds == 10800
    elements = {**machine.elements, name: {head(key): tail(data)}}
    return msgspec.structs.replace(machine, elements=elements)


@pytest.mark.parametrize("again", ["P CIP:80", "P VIP:80", "P EXT:80", "P NP"])
def test_72_a_client_gets_the_same_endpoint_by_every_frontend(again: str) -> None:
    rig = filled(
        table_of(everywhere(STICKY), endpoint_slice("L1 R1")), node(Mode.NFTABLES), heals=True
    )
    machine = rig.machine()
    first = outcomes(machine, packet("P CIP:80"))
    assert {fate.target for fate in first} == {"10.64.3.11:8080", "10.65.7.21:8080"}
    for fate in first:
        ((then, share),) = outcomes(pinned(machine, fate), packet(again)).items()
        assert (then.target, then.pin, share) == (fate.target, fate.pin, Fraction(1))


def test_another_client_and_another_service_are_not_bound_by_it() -> None:
    other = service({**STICKY, "clusterIP": "10.112.0.22"}, name="cart2")
    more = endpoint_slice("L1 R1", name="cart2-1")
    more["metadata"] = {
        "namespace": "shop",
        "name": "cart2-1",
        "labels": {"kubernetes.io/service-name": "cart2"},
    }
    table = table_of(everywhere(STICKY), endpoint_slice("L1 R1"), other, more)
    machine = filled(table, node(Mode.NFTABLES), heals=True).machine()
    for fate in outcomes(machine, packet("P CIP:80")):
        after = pinned(machine, fate)
        assert len(outcomes(after, packet("X CIP:80"))) == 2
        assert len(outcomes(after, packet("P 10.112.0.22:80"))) == 2


HERE = {"10.64.3.11:8080", "10.64.3.12:8080"}


@pytest.mark.parametrize(
    ("first", "then"),
    [("P VIP:80", "P CIP:80"), ("P CIP:80", "P VIP:80"), ("X NP", "X CIP:80")],
    ids=["all-then-here", "here-then-all", "here-then-all-from-outside"],
)
def test_a_pin_counts_under_the_other_policy_too(first: str, then: str) -> None:
    """Unless its endpoint cannot be chosen there, and then it stays for where it can be."""
    internal = "Local" if first.startswith("P") else "Cluster"
    external = "Cluster" if internal == "Local" else "Local"
    spec = {**STICKY, "internalTrafficPolicy": internal, "externalTrafficPolicy": external}
    table = table_of(everywhere(spec), endpoint_slice("L1 L2 R1"))
    machine = filled(table, node(Mode.NFTABLES), heals=True).machine()
    for fate in outcomes(machine, packet(first)):
        assert fate.pin is not None
        later = outcomes(pinned(machine, fate), packet(then))
        targets = {each.target for each in later}
        assert targets == ({fate.target} if fate.target in HERE else HERE)
        for each in later:
            assert each.pin is not None
            assert {each.pin[0], fate.pin[0]} == {AFFINITY, LOCAL_AFFINITY}
            # A pin to elsewhere is none of those that the rules for this node's would remove.
            assert fate.pin[:2] not in each.unpinned


@pytest.mark.parametrize("local", [False, True], ids=["all", "here"])
def test_a_pin_to_an_endpoint_that_left_leads_nowhere_and_goes(local: bool) -> None:
    """Whatever the daemon does: a client is sent to one that is left, and keeps it."""
    spec = {**STICKY, "internalTrafficPolicy": "Local" if local else "Cluster"}
    here = node(Mode.NFTABLES)
    before = filled(table_of(everywhere(spec), endpoint_slice("L1 L2 R1")), here).machine()
    after = filled(table_of(everywhere(spec), endpoint_slice("L2 R1")), here).machine()
    left = {"10.64.3.12:8080"} if local else {"10.64.3.12:8080", "10.65.7.21:8080"}
    (fate,) = (f for f in outcomes(before, packet("P CIP:80")) if f.target == "10.64.3.11:8080")
    assert fate.pin is not None
    name, key, data, _ = fate.pin
    elements = {**after.elements, name: {head(key): tail(data)}}
    later = outcomes(msgspec.structs.replace(after, elements=elements), packet("P CIP:80"))
    assert {each.target for each in later} == left
    assert {each.unpinned[0] for each in later} == {(name, key)}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("P VIP:80", AFFINITY),
        ("H VIP:80", AFFINITY),
        ("X VIP:80", LOCAL_AFFINITY),
        ("X NP", LOCAL_AFFINITY),
    ],
)
def test_what_is_remembered_is_what_was_chosen_from(sent: str, expected: str) -> None:
    table = table_of(everywhere({**STICKY, **worked.EXTERNAL_LOCAL}), endpoint_slice("L1 R1"))
    machine = filled(table, node(Mode.NFTABLES), heals=True).machine()
    assert {fate.pin and fate.pin[0] for fate in outcomes(machine, packet(sent))} == {expected}


def test_without_affinity_nothing_is_remembered() -> None:
    machine = filled(
        table_of(service(), endpoint_slice("L1")), node(Mode.NFTABLES), heals=True
    ).machine()
    assert {fate.pin for fate in outcomes(machine, packet("P CIP:80"))} == {None}
