"""How far the kernel is from what a full sync would leave; nothing is written."""

from msgspec.structs import replace

from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.iptables.difference import changes, differences, owners_of, tables_in
from kubeproxy.dataplane.iptables.parse import found_chains
from kubeproxy.dataplane.iptables.render import restore_text
from kubeproxy.dataplane.iptables.setup import BE_LIBERAL, COUNTERS, Options, setup_of
from kubeproxy.dataplane.iptables.state import everything
from kubeproxy.linux.nfacct import read_packets
from kubeproxy.linux.sysctl import read_sysctl
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.entries import Table
from kubeproxy.table.node import Node

_ANOTHER_KIND = (
    "none of the proxy's chains is there: it may use another kind of iptables than this command,"
    " legacy or nft"
)


def drift(programs: Xtables, table: Table, node: Node, masquerade_bit: int) -> list[Difference]:
    """The differences, as lines of `iptables-save`.

    Counters that exist are those that rules use: the daemon has created them where it could.
    """
    counters = frozenset(read_packets(COUNTERS))
    options = Options(masquerade_bit, not read_sysctl(BE_LIBERAL), counters)
    setup = setup_of(node, options)
    saved = {name: programs.save(name) for name in ("filter", "nat")}
    kept, written = everything(table, setup, found_chains(saved["nat"]))
    wanted = tables_in(restore_text(node, options, written))
    found = tables_in("".join(saved.values()))
    found_changes = list(changes(wanted, found, written.stale.delete))
    if not found_changes:
        return []
    first, *others = differences(
        found_changes, owners_of(table.entries.values(), setup, kept.tops)
    )
    if not any(wanted[name].keys() & found.get(name, {}).keys() for name in wanted):
        first = replace(first, reason=_ANOTHER_KIND)
    return [first, *others]
