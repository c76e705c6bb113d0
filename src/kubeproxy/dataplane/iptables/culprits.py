"""Whose rules cannot be written, or are refused."""

from collections.abc import Iterable

from kubeproxy.dataplane.iptables.rules import chain_rules
from kubeproxy.dataplane.iptables.setup import Setup
from kubeproxy.dataplane.iptables.state import is_large, top_rules_of
from kubeproxy.table.entries import Entry, ServicePortName, Table


def write_alone(table: Table, setup: Setup, entry: Entry, *, brief: bool = False) -> str:
    """All that a restore has of an entry: rules, and the lines that name its chains."""
    top = top_rules_of(entry, table, setup)
    texts = [top.filter, top.nat]
    for chain, rules in chain_rules(entry, setup, brief=brief).items():
        texts += (f":{chain} - [0:0]\n", rules)
    return "".join(texts)


def owners(lines: Iterable[str], table: Table, setup: Setup) -> list[ServicePortName]:
    """The service ports that have one of these lines in a restore."""
    wanted = frozenset(lines)
    brief = is_large(table)
    return [
        name
        for name, entry in table.entries.items()
        if not wanted.isdisjoint(write_alone(table, setup, entry, brief=brief).splitlines())
    ]
