"""A table on its way into a fake kernel, by the pure half of the dataplane alone."""

from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from dataplane.nftables.walk import Machine, machine
from fakes.nftables import FakeNftables
from fakes.ruleset import KernelTable, Ruleset
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import (
    Batch,
    batch_messages,
    chain_deletions,
    program_messages,
)
from kubeproxy.dataplane.nftables.chainnumbers import numbers_in
from kubeproxy.dataplane.nftables.choices import chain_of, with_parts
from kubeproxy.dataplane.nftables.elements import Elements, number_tail
from kubeproxy.dataplane.nftables.expressions import NFPROTO, encode_rule
from kubeproxy.dataplane.nftables.language import Chain, Program
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.dataplane.nftables.placed import choices
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.state import NONE_KNOWN, Programmed, commit, reconcile, step
from kubeproxy.table.diff import Changes, ListChanges
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import NodeView

SETTINGS = NftablesSettings()


@cache
def _empty(node: NodeView, *, heals: bool) -> tuple[Program, Ruleset]:
    """The program of a node, and a kernel that has it and nothing else."""
    made = program(node, SETTINGS, heals=heals)
    kernel = FakeNftables()
    kernel.commit(program_messages(made))
    return made, kernel.ruleset


CHAINS = {names.CHOICE_CHAINS, names.REMEMBER_CHAINS}
"""The maps that lead from the numbers of choices to their chains."""


class Rig:
    """The state that the dataplane remembers, beside the kernel that it should describe."""

    def __init__(self, node: NodeView, *, heals: bool = False) -> None:
        self.node = node
        self.heals = heals
        self.program, ruleset = _empty(node, heals=heals)
        self.kernel = FakeNftables(ruleset.copy())
        self.state = self._nothing_known()

    @property
    def table(self) -> KernelTable:
        return self.kernel.ruleset.tables[NFPROTO[self.node.family], TABLE]

    def fill(self, table: Table, *, prune: bool = True) -> Batch:
        """A full sync: as after a restart, nothing is known but what the kernel says."""
        state = self._nothing_known()
        entries = table.entries.values()
        done = reconcile(state, entries, self.table.elements(), self.node)
        self.kernel.commit(batch_messages(self.program, done.batch))
        if prune:
            idle = sorted(done.idle)
            self.kernel.commit(chain_deletions(self.program, idle, done.numbers))
            done.numbers = {c: n for c, n in done.numbers.items() if c not in done.idle}
        commit(state, done, self.node)
        self.state = state
        return done.batch

    def change(self, changes: Changes, node: NodeView | None = None) -> Batch:
        """A partial sync."""
        gone = [*changes.removed, *(before for before, _ in changes.changed)]
        wanted = [*changes.added, *(after for _, after in changes.changed)]
        return self.step(gone, wanted, node, changes.lists)

    def step(
        self,
        gone: Iterable[Entry],
        wanted: Iterable[Entry],
        node: NodeView | None = None,
        lists: Mapping[ServicePortName, ListChanges] = NONE_KNOWN,
    ) -> Batch:
        node = node or self.node
        done = step(self.state, gone, wanted, node, lists)
        self.kernel.commit(batch_messages(self.program, done.batch))
        commit(self.state, done, node)
        self.node = node
        return done.batch

    def copy(self) -> "Rig":
        """Another kernel with the same content, of which nothing is known yet."""
        other = Rig(self.node, heals=self.heals)
        other.kernel = FakeNftables(self.kernel.ruleset.copy())
        return other

    def needed_chains(self) -> list[Chain]:
        """The chains of the choices that the table of today makes."""
        placed = self.state.placed.values()
        needed = with_parts(choice for each in placed for choice in choices(each))
        return [chain_of(choice, self.node) for choice in needed]

    def machine(self) -> Machine:
        """The kernel, for packets to walk through; its rules are those of the typed chains."""
        chains = self.needed_chains()
        for chain in (*self.program.chains, *chains):
            assert self.table.chains[chain.name].rules == list(map(encode_rule, chain.rules))
        return machine(self.program, chains, self.table.elements(), self.node)

    def _nothing_known(self) -> Programmed:
        return Programmed(self.program, self.node, chains=set(self.table.chains))


def by_chains(elements: Elements) -> Elements:
    """Elements with the chains of choices instead of their numbers, which depend on the past.

    So do the endpoints that have left. Sets of healing need not be there if they are empty.
    """
    chains = {number_tail(number): chain for chain, number in numbers_in(elements).items()}
    found = {
        name: held
        for name, held in elements.items()
        if name not in {*CHAINS, names.GONE, names.GONE_ANY}
        and (held or name not in names.OF_HEALING)
    }
    for name in (*names.CHOICES.values(), *names.REMEMBERS.values()):
        found[name] = {each: chains[data].encode() for each, data in found[name].items()}
    return found


def filled(table: Table, node: NodeView, *, heals: bool = False) -> Rig:
    """A kernel that has just been filled for the first time."""
    rig = Rig(node, heals=heals)
    rig.fill(table)
    return rig


def with_node(node: NodeView, **fields: object) -> NodeView:
    """The node, but with other settings."""
    return msgspec.structs.replace(node, **fields)


def table_with(*entries: Entry, family: Family = Family.IPV4) -> Table:
    """A table of entries that are made by hand."""
    table = Table(family)
    for entry in entries:
        table.put(entry)
    return table
