"""A family as text: what a full sync of a node with nothing in its kernel would do."""

import shlex
from collections.abc import Iterable

from kubeproxy.dataplane.iptables.parse import Found
from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.rules import chain_rules
from kubeproxy.dataplane.iptables.setup import Options, Setup, setup_of
from kubeproxy.dataplane.iptables.state import everything, is_large, top_rules_of
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import Node


def describe_some(table: Table, names: Iterable[ServicePortName], setup: Setup) -> str:
    """The rules of some service ports, table by table, as a full sync writes them."""
    filters, nats, chains = [], [], dict[str, str]()
    brief = is_large(table)
    for name in names:
        entry = table.entries.get(name)
        if entry is not None:
            top = top_rules_of(entry, table, setup)
            filters.append(top.filter)
            nats.append(top.nat)
            chains.update(chain_rules(entry, setup, brief=brief))
    nats += [f":{chain} - [0:0]\n" for chain in chains]
    nats += chains.values()
    shown = (("filter", "".join(filters)), ("nat", "".join(nats)))
    return "".join(f"*{kind}\n{rules}COMMIT\n" for kind, rules in shown if rules)


def describe(table: Table, node: Node, options: Options) -> str:
    """The text for `iptables-restore`; the jumps, which it does not hold, as comments."""
    program = PROGRAM[table.family]
    jumps = (
        f"# {program} -t {jump.table} -I {jump.chain} {shlex.join(jump.words)}\n" for jump in JUMPS
    )
    _, written = everything(table, setup_of(node, options), Found())
    text = restore_text(node, options, written)
    return f"{''.join(jumps)}# {program}-restore --noflush --counters\n{text}"
