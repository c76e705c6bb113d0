"""A whole family as text: what a full sync of a node with nothing in its kernel would do."""

import shlex

from kubeproxy.dataplane.iptables.parse import Found
from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.setup import Options, setup_of
from kubeproxy.dataplane.iptables.state import everything
from kubeproxy.inet import Family
from kubeproxy.table.entries import Table
from kubeproxy.table.node import Node

_PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}


def describe(table: Table, node: Node, options: Options) -> str:
    """The text for `iptables-restore`; the jumps, which it does not hold, as comments."""
    program = _PROGRAM[table.family]
    jumps = (
        f"# {program} -t {jump.table} -I {jump.chain} {shlex.join(jump.words)}\n" for jump in JUMPS
    )
    _, written = everything(table, setup_of(node, options), Found())
    text = restore_text(node, options, written)
    return f"{''.join(jumps)}# {program}-restore --noflush --counters\n{text}"
