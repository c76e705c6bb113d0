"""The program means what decide() says.

All worked cases of the semantics are run once more: this module imports their tests, and has
every packet of nftables mode walk through the program as well.
"""

from fractions import Fraction

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
from kubeproxy.inet import Family
from kubeproxy.table.decide import Action, Packet, Verdict, decide
from kubeproxy.table.entries import Balance, Table
from kubeproxy.table.node import Mode, Node
from table.test_worked_cases import *  # noqa: F403  # its tests are run again, with both eyes

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
    def decide_and_walk(packet: Packet, table: Table, node: Node, mode: Mode) -> Verdict:
        verdict = decide(packet, table, node, mode)
        if mode is Mode.NFTABLES:
            assert expected(verdict) == walked(filled(table, node).machine(), packet)
        return verdict

    monkeypatch.setattr(worked, "decide", decide_and_walk)


@settings(max_examples=60)
@given(st.data(), families, balances)
def test_every_packet_of_every_cluster_is_treated_as_decide_says(
    data: st.DataObject, family: Family, balance: Balance
) -> None:
    node = data.draw(nodes(family))
    table = last_table(data.draw(clusters(family)), family, balance)
    machine = filled(table, node).machine()
    undecided = of_two_minds(table)
    for packet in packets(table, node):
        if undecided.isdisjoint({packet.source, packet.destination}):
            verdict = decide(packet, table, node, Mode.NFTABLES)
            assert expected(verdict) == walked(machine, packet), packet
