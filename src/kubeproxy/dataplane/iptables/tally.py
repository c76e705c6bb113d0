"""How many rules a change of one service port writes: worked out, and not written."""

from collections.abc import Callable

from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.dataplane.iptables.rules import chain_rules, top_rules
from kubeproxy.dataplane.iptables.setup import RuleSetup
from kubeproxy.dataplane.iptables.state import rules_in
from kubeproxy.table.entries import Entry


def tally(setup: RuleSetup) -> Callable[[EntryChange], int]:
    """Counts chains, and rules of them that are written or deleted, but for those at the top.

    Those that lead to chains are counted where they differ: every sync writes all of them anyway.
    """

    def count(change: EntryChange) -> int:
        was, is_ = (chain_rules(entry, setup) if entry else {} for entry in change)
        tops = [_tops(entry, setup) if entry else frozenset[str]() for entry in change]
        chains = rules_in(is_) + len(was.keys() | is_.keys()) if was != is_ else 0
        return chains + len(tops[0] ^ tops[1])

    return count


def _tops(entry: Entry, setup: RuleSetup) -> frozenset[str]:
    """The rules that lead to the chains of an entry, or refuse packets."""
    rules = top_rules(entry, setup)
    return frozenset((*rules.filter.splitlines(), *rules.nat.splitlines()))
