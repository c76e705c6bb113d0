"""Rules as text: of all services on an empty kernel, of some, and of those at fault."""

import shlex
from collections.abc import Iterable, Sequence

from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.rules import chain_rules
from kubeproxy.dataplane.iptables.setup import Options, RuleSetup, setup_of
from kubeproxy.dataplane.iptables.state import everything, is_large, top_rules_of
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import NodeView


def describe(table: Table, node: NodeView, options: Options) -> str:
    """The text for `iptables-restore`; the jumps, which it does not hold, as comments."""
    program = PROGRAM[table.family]
    jumps = (
        f"# {program} -t {jump.table} -I {jump.chain} {shlex.join(jump.words)}\n" for jump in JUMPS
    )
    _, written = everything(table, setup_of(node, options))
    text = restore_text(node, options, written)
    return f"{''.join(jumps)}# {program}-restore --noflush --counters\n{text}"


def describe_some(table: Table, names: Iterable[ServicePortName], setup: RuleSetup) -> str:
    """The rules of some service ports, table by table, as a full sync writes them."""
    entries = [table.entries[name] for name in names if name in table.entries]
    rules = rules_of(entries, table, setup, brief=is_large(table))
    return "".join(f"*{kind}\n{lines}COMMIT\n" for kind, lines in rules.items() if lines)


def owners(lines: Iterable[str], table: Table, setup: RuleSetup) -> list[ServicePortName]:
    """The service ports that have one of these lines in a restore."""
    wanted = frozenset(lines)
    brief = is_large(table)
    return [
        name
        for name, entry in table.entries.items()
        if not wanted.isdisjoint(
            "".join(rules_of([entry], table, setup, brief=brief).values()).splitlines()
        )
    ]


def rules_of(
    entries: Sequence[Entry], table: Table, setup: RuleSetup, *, brief: bool = False
) -> dict[str, str]:
    """All that a restore has of some entries: rules, and the lines that name their chains."""
    tops = [top_rules_of(entry, table, setup) for entry in entries]
    chains: dict[str, str] = {}
    for entry in entries:
        chains |= chain_rules(entry, setup, brief=brief)
    heads = (f":{chain} - [0:0]\n" for chain in chains)
    return {
        "filter": "".join(top.filter for top in tops),
        "nat": "".join((*(top.nat for top in tops), *heads, *chains.values())),
    }
