"""What was written last, and what the next sync has to write.

Top-level rules of a service port are rendered once and kept until it changes. Its chains are not
kept: only their names are needed later, and they follow from the entry.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.dataplane.iptables.names import is_service_chain
from kubeproxy.dataplane.iptables.render import Written
from kubeproxy.dataplane.iptables.rules import TopRules, chain_rules, top_rules
from kubeproxy.dataplane.iptables.setup import LARGE_CLUSTER, RuleSetup
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry, ServicePortName, Table

_CHAIN = re.compile(r"^:(\S+) ", re.MULTILINE)
_FOREIGN_JUMP = re.compile(r"^-A (?!KUBE-).* -[jg] (KUBE-\S+)$", re.MULTILINE)


class Kept(msgspec.Struct):
    """The top-level rules of every service port, in the order of the names.

    `chain_rules` is how many rules there are in the chains of all of them.
    """

    setup: RuleSetup
    tops: dict[ServicePortName, TopRules] = {}
    order: list[ServicePortName] = []
    chain_rules: int = 0

    def put(self, name: ServicePortName, top: TopRules) -> None:
        """Add the rules of a service port, or replace them."""
        if name not in self.tops:
            insort(self.order, name)
        self.tops[name] = top

    def drop(self, name: ServicePortName) -> None:
        """Remove the rules of a service port."""
        if self.tops.pop(name, None) is not None:
            del self.order[bisect_left(self.order, name)]

    def ordered(self) -> Iterable[TopRules]:
        """The rules, in the order of the names."""
        return map(self.tops.__getitem__, self.order)


def is_large(table: Table) -> bool:
    """Whether the cluster is so large that rules of endpoints get no comments."""
    return sum(entry.endpoints for entry in table.entries.values()) > LARGE_CLUSTER


def everything(table: Table, setup: RuleSetup, saved: str = "") -> tuple[Kept, Written]:
    """Write all. `saved` is the nat table now: chains of services that are not used go.

    One that rules of others lead to cannot be deleted, only emptied.
    """
    kept = Kept(setup, order=sorted(table.entries))
    brief = is_large(table)
    chains: dict[str, str] = {}
    for name in kept.order:
        entry = table.entries[name]
        kept.tops[name] = top_rules_of(entry, table, setup)
        chains.update(chain_rules(entry, setup, brief=brief))
    kept.chain_rules = rules_in(chains)
    unused = set(filter(is_service_chain, _CHAIN.findall(saved))) - chains.keys()
    held = unused.intersection(_FOREIGN_JUMP.findall(saved))
    return kept, Written(kept.ordered(), chains, deleted=unused - held, emptied=held)


def difference(kept: Kept, table: Table, changes: Changes) -> Written:
    """Write what the changes need, and update `kept`.

    Service ports whose rules did not change are left alone.
    """
    setup, brief = kept.setup, is_large(table)
    chains: dict[str, str] = {}
    before: set[str] = set()
    tops = dict[ServicePortName, TopRules]()
    for entry in changes.removed:
        removed = chain_rules(entry, setup)
        kept.chain_rules -= rules_in(removed)
        before.update(removed)
        kept.drop(entry.name)
    for entry in changes.added:
        chains.update(chain_rules(entry, setup, brief=brief))
        tops[entry.name] = top_rules_of(entry, table, setup)
    for old, new in changes.changed:
        was, is_ = (chain_rules(entry, setup, brief=brief) for entry in (old, new))
        if was != is_:
            kept.chain_rules -= rules_in(was)
            before.update(was)
            chains.update(is_)
        tops[new.name] = top_rules_of(new, table, setup)
    for name in kept.order if changes.health_checks else ():
        if name.owner in changes.health_checks:
            tops[name] = top_rules_of(table.entries[name], table, setup)
    news = {name: top for name, top in tops.items() if kept.tops.get(name) != top}
    for name, top in news.items():
        kept.put(name, top)
    kept.chain_rules += rules_in(chains)
    is_news = bool(news or chains or before or changes.removed)
    return Written(kept.ordered(), chains, before - chains.keys(), is_news=is_news)


def rules_in(chains: Mapping[str, str]) -> int:
    """How many rules the chains have: each is a line."""
    return sum(rules.count("\n") for rules in chains.values())


def top_rules_of(entry: Entry, table: Table, setup: RuleSetup) -> TopRules:
    """The top-level rules of an entry, that of its health check included."""
    return top_rules(entry, setup, table.health_check_port(entry.name))
