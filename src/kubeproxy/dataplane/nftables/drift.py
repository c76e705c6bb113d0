"""How far the kernel is from what a full sync would leave; nothing is written."""

from collections.abc import Collection
from functools import cache, partial

import msgspec

from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.nftables.compare import look, needed_chains
from kubeproxy.dataplane.nftables.difference import altered, changes, place_of
from kubeproxy.dataplane.nftables.inspect import read_declared
from kubeproxy.dataplane.nftables.language import HEADERS, Program
from kubeproxy.dataplane.nftables.state import reconcile
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import rule_texts
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import Node


class Wanted(msgspec.Struct, frozen=True):
    """How the kernel should be; `refused` are service ports that it would not take."""

    program: Program
    table: Table
    node: Node
    refused: Collection[ServicePortName] = ()


def drift(kernel: Nfnetlink, wanted: Wanted) -> list[Difference]:
    """The differences, in nft's words.

    Chains of unused choices are none: they do no harm, and stay until a full sync. Of a table that
    would be replaced as a whole, elements are not compared.
    """
    program, node = wanted.program, wanted.node
    table = f"table {place_of(program)}"
    entries = [e for name, e in wanted.table.entries.items() if name not in wanted.refused]
    found, state = look(kernel, program, entries, node)
    if not found.exists:
        return [Difference(Change.ADD, table, reason="there is none: no service is served")]
    if found.dormant:
        reason = "it is switched off (flags dormant): no service is served"
        return [Difference(Change.REPLACE, table, reason=reason)]
    if not found.intact:
        reason = "it is not the program that it should be"
        chains = (*program.chains, *needed_chains(entries, node))
        keyword = HEADERS[program.family].keyword
        # nft reads all elements when it lists a rule: that is done for rules of others only.
        listed = cache(partial(rule_texts, keyword, program.table))
        details = altered(program, chains, read_declared(kernel, program), listed)
        return [Difference(Change.REPLACE, table, reason=reason), *details]
    before = {name: dict(elements) for name, elements in found.elements.items()}
    step = reconcile(state, entries, found.elements, node, prune=False)
    return changes(program, step, before)
