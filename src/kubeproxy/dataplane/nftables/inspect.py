"""Reads our table from the kernel, and says whether it is the program that it should be."""

from collections.abc import Iterable

import msgspec

from kubeproxy.dataplane.nftables.dump import (
    KernelChain,
    declaration,
    read_chains,
    read_elements,
    read_rules,
    read_sets,
)
from kubeproxy.dataplane.nftables.encode import new_set
from kubeproxy.dataplane.nftables.expressions import NFPROTO, encode_rule
from kubeproxy.dataplane.nftables.language import Chain, Program, Set
from kubeproxy.dataplane.nftables.state import KernelElements
from kubeproxy.kernel.nfnetlink import Nfnetlink, Refused
from kubeproxy.netlink.attribute import text
from kubeproxy.netlink.nfnetlink import (
    NFT_MSG_GETCHAIN,
    NFT_MSG_GETRULE,
    NFT_MSG_GETSET,
    NFT_MSG_GETSETELEM,
    NFT_MSG_GETTABLE,
)

_ENOENT = 2
_MESSAGE_HEAD = 20


class Found(msgspec.Struct, frozen=True):
    """What the kernel has: no table, a table of others, or ours with these chains and elements."""

    exists: bool
    intact: bool = False
    chains: frozenset[str] = frozenset()
    elements: KernelElements = {}


def inspect(kernel: Nfnetlink, program: Program, choices: Iterable[Chain]) -> Found:
    """Read the table; elements only when the program and the chains of choices are right."""
    family = NFPROTO[program.family]
    of_table = text(1, program.table)
    try:
        kernel.get(NFT_MSG_GETTABLE, family, of_table)
    except Refused as error:
        if error.errno == _ENOENT:
            return Found(exists=False)
        raise
    sets = read_sets(kernel.dump(NFT_MSG_GETSET, family, of_table))
    expected = {set_.name: _expected(program, set_) for set_ in program.sets}
    if expected != {name: found.declaration for name, found in sets.items()}:
        return Found(exists=True)
    chains = read_chains(kernel.dump(NFT_MSG_GETCHAIN, family), program.table)
    rules = read_rules(kernel.dump(NFT_MSG_GETRULE, family, of_table))
    if not _are_right(chains, rules, program, choices):
        return Found(exists=True)
    elements = {
        set_.name: read_elements(
            kernel.dump(NFT_MSG_GETSETELEM, family, of_table + text(2, set_.name))
        )
        for set_ in program.sets
        if not set_.dynamic
    }
    return Found(exists=True, intact=True, chains=frozenset(chains), elements=elements)


def _expected(program: Program, set_: Set) -> dict[int, bytes]:
    return declaration(new_set(program, set_, 1)[_MESSAGE_HEAD:])


def _are_right(
    chains: dict[str, KernelChain],
    rules: dict[str, list[bytes]],
    program: Program,
    choices: Iterable[Chain],
) -> bool:
    """Whether the fixed chains are there as they should be, and choices are, if they are."""
    for chain in program.chains:
        hook = chain.hook
        place = (hook.number, hook.priority, hook.type) if hook else None
        if chains.get(chain.name) != KernelChain(chain.name, place):
            return False
    return all(
        [encode_rule(rule) for rule in chain.rules] == rules.get(chain.name, [])
        for chain in (*program.chains, *choices)
        if chain.name in chains
    )
