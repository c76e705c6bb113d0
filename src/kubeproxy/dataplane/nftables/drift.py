"""How far the kernel is from what a full sync would leave; nothing is written."""

from collections.abc import Collection
from functools import cache, partial

from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.nftables.difference import altered, changes, place_of
from kubeproxy.dataplane.nftables.inspect import look, needed_chains, read_declared
from kubeproxy.dataplane.nftables.language import HEADERS, Program
from kubeproxy.dataplane.nftables.state import reconcile
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import rule_texts
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView


def drift(
    kernel: Nfnetlink,
    program: Program,
    desired: Table,
    node: NodeView,
    refused: Collection[ServicePortName] = (),
) -> list[Difference]:
    """The differences, in nft's words; `refused` are service ports that the kernel would not take.

    Chains of unused choices are none: they do no harm, and stay until a full sync. Of a table that
    would be replaced as a whole, elements are not compared.
    """
    table = f"table {place_of(program)}"
    entries = [e for name, e in desired.entries.items() if name not in refused]
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
    step = reconcile(state, entries, found.elements, node)
    differences = changes(program, step, before)
    if found.switch:
        declared = read_declared(kernel, program)
        listed = cache(partial(rule_texts, HEADERS[program.family].keyword, program.table))
        return [*altered(program, program.chains, declared, listed), *differences]
    return differences
