"""The rules that a full sync would write, and those of the kernel -> differences."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from kubeproxy.dataplane.difference import Change, Difference, ordered_changes
from kubeproxy.dataplane.iptables.canonical import canonical
from kubeproxy.dataplane.iptables.render import JUMPS, restore_text
from kubeproxy.dataplane.iptables.rules import chain_rules
from kubeproxy.dataplane.iptables.setup import Options, setup_of
from kubeproxy.dataplane.iptables.state import everything
from kubeproxy.dataplane.xtables_text import RuleTables, tables_in
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView

_ANOTHER_KIND: Final = (
    "none of the proxy's chains is there: it may use another kind of iptables than this command,"
    " legacy or nft"
)
_TARGET: Final = re.compile(r" -[jg] (\S+)")

LineChange = tuple[Change, str, str]
"""What becomes of a line, in which table, and the line."""


def changes(
    wanted: RuleTables, found: RuleTables, unused: Collection[str]
) -> Iterator[LineChange]:
    """What would be added and removed; `unused` are chains of services that are gone."""
    for table, chains in wanted.items():
        there = found.get(table, {})
        for chain, lines in chains.items():
            if chain not in there:
                yield Change.ADD, table, f"-N {chain}"
            before = there.get(chain, [])
            for change, place in ordered_changes(
                list(map(canonical, before)), list(map(canonical, lines))
            ):
                yield change, table, (before if change is Change.REMOVE else lines)[place]
            if chain in unused:
                yield Change.REMOVE, table, f"-N {chain}"
    yield from _jumps(wanted, found)


def _jumps(wanted: RuleTables, found: RuleTables) -> Iterator[LineChange]:
    """Jumps that stand nowhere in their chains, and chains that only they need."""
    for table, target in dict.fromkeys((jump.table, jump.target) for jump in JUMPS):
        if target not in found.get(table, {}) and target not in wanted[table]:
            yield Change.ADD, table, f"-N {target}"
    for jump in JUMPS:
        rule = shlex.join(jump.words)
        present = map(canonical, found.get(jump.table, {}).get(jump.chain, ()))
        if canonical(f"-A {jump.chain} {rule}") not in present:
            yield Change.ADD, jump.table, f"-I {jump.chain} {rule}"


def drift(
    saved: Mapping[str, str], table: Table, node: NodeView, options: Options
) -> list[Difference]:
    """What a full sync would change; `saved` are the tables of the kernel, as text.

    Each line has the service port that it is about, as far as that is known.
    """
    setup = setup_of(node, options)
    kept, written = everything(table, setup, saved["nat"])
    wanted = tables_in(restore_text(node, options, written))
    found = tables_in("".join(saved.values()))
    owners: dict[str, str] = {}  # by chains, and by lines in other chains
    for name, top in kept.tops.items():
        owners |= dict.fromkeys(chain_rules(table.entries[name], setup), str(name))
        owners |= dict.fromkeys((top.filter + top.nat).splitlines(), str(name))
    listed = [
        Difference(change, f"-t {kind} {line}", _owner(line, owners))
        for change, kind, line in changes(wanted, found, written.deleted)
    ]
    if listed and not any(wanted[kind].keys() & found.get(kind, {}).keys() for kind in wanted):
        listed[0] = replace(listed[0], reason=_ANOTHER_KIND)
    return listed


def _owner(line: str, owners: Mapping[str, str]) -> str:
    target = _TARGET.search(line)
    asked = (line.split(" ", 2)[1], line, target[1] if target else "")
    return next((owners[each] for each in asked if each in owners), "")
