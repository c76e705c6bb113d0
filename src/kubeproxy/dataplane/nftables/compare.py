"""Reads the kernel to be compared with what it should be: by a full sync, or by who only looks."""

from collections.abc import Sequence

from kubeproxy.dataplane.nftables.choices import chain_of, with_parts
from kubeproxy.dataplane.nftables.inspect import Found, inspect
from kubeproxy.dataplane.nftables.language import Chain, Program
from kubeproxy.dataplane.nftables.placed import Placed, choices
from kubeproxy.dataplane.nftables.state import Programmed
from kubeproxy.linux.netlink_socket import decoding
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Entry
from kubeproxy.table.node import Node


def look(
    kernel: Nfnetlink,
    wanted: Program,
    entries: Sequence[Entry],
    node: Node,
    *,
    replace: bool = False,
) -> tuple[Found, Programmed]:
    """What the kernel has, and the state from which to reconcile it with the entries.

    A table that is to be replaced counts as one of others, whatever is in it.
    """
    needed = needed_chains(entries, node)
    with decoding(f"cannot read the {wanted.family.value} table {wanted.table}"):
        found = inspect(kernel, wanted, needed)
    if replace:
        found = Found(exists=found.exists)
    chains = found.chains if found.intact else {chain.name for chain in wanted.chains}
    return found, Programmed(wanted, node, chains=set(chains))


def needed_chains(entries: Sequence[Entry], node: Node) -> list[Chain]:
    """The chains of all choices that the entries need."""
    needed = {c for entry in entries for c in choices(Placed(entry, (), ()))}
    return [chain_of(choice, node) for choice in with_parts(needed)]
