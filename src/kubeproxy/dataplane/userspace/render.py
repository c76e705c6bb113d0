"""What a full sync writes into the kernel, as text."""

from collections.abc import Iterable
from itertools import chain

from kubeproxy.dataplane.userspace.rules import Element, elements, whole_table
from kubeproxy.table.entries import Entry, Table
from kubeproxy.table.node import NodeView

_NOTE = """\
# Each listener has a port that is free when it is opened; here 0 stands for every one of them.
"""


def rendered(table: Table, node: NodeView) -> str:
    """The rules, and the elements of all service ports."""
    return (_NOTE + whole_table(node, wanted(table.entries.values(), node))).rstrip("\n")


def wanted(entries: Iterable[Entry], node: NodeView) -> frozenset[Element]:
    """The elements of service ports, with port 0 for every listener."""
    every = (elements(entry, node, lambda _: 0) for entry in entries)
    return frozenset(chain.from_iterable(every))
