"""How many objects a change of one service port writes: worked out, and not written."""

from collections.abc import Callable

from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.state import Programmed, commit, step
from kubeproxy.table.node import NodeView


def tally(program: Program, node: NodeView) -> Callable[[EntryChange], int]:
    """Counts chains, rules and elements, as if no other service port had a chain in common."""

    def count(change: EntryChange) -> int:
        state = Programmed(program, node, chains={chain.name for chain in program.chains})
        gone, wanted = ([entry] if entry else [] for entry in change)
        commit(state, step(state, (), gone, node), node)
        return step(state, gone, wanted, node).batch.count

    return count
