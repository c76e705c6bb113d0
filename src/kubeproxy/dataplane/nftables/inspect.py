"""Reads our table from the kernel, and says whether it is the program that it should be."""

import contextlib
import errno
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import dump, names
from kubeproxy.dataplane.nftables.batch import encoded, extension_messages, removal_messages
from kubeproxy.dataplane.nftables.chainnumbers import numbers_in
from kubeproxy.dataplane.nftables.choices import chain_of, counts_in, with_parts
from kubeproxy.dataplane.nftables.elements import Elements, list_heads, list_tail, number_tail
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import Chain, Program
from kubeproxy.dataplane.nftables.placed import Placed, choices
from kubeproxy.dataplane.nftables.state import Programmed
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink_socket import Refused, decoding, tolerating
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Backend, Entry
from kubeproxy.table.node import LOOPBACK, NodeView

_KEY_AT = 8
_DUMP_ATTEMPTS = 3
AT_ONCE = 1000
LARGE_SET = 20_000

# The maps of lists: whose choices draw from them, and which of a chain's two counts is theirs.
_LISTS = {
    name: (names.CHOICES[node_port], local) for (node_port, local), name in names.LISTS.items()
}


class Found(msgspec.Struct, frozen=True):
    """What the kernel has: no table, another one, or our program with these chains and elements.

    One that is `dormant` has been switched off, which leaves all that is in it in place.
    """

    exists: bool
    intact: bool = False
    dormant: bool = False
    chains: frozenset[str] = frozenset()
    elements: Elements = {}
    switch: tuple[bytes, ...] = ()
    """What makes or removes the rules for healing, where these are not as they should be."""


def look(
    kernel: Nfnetlink,
    wanted: Program,
    entries: Sequence[Entry],
    node: NodeView,
    *,
    replace: bool = False,
) -> tuple[Found, Programmed]:
    """What the kernel has, and the state from which to reconcile it with the entries.

    A table that is to be replaced counts as one of others, whatever is in it.
    """
    needed = needed_chains(entries, node)
    with decoding(f"cannot read the {wanted.family.value} table {wanted.table}"):
        found = _inspect(kernel, wanted, needed)
    if replace:
        found = Found(exists=found.exists)
    chains = found.chains if found.intact else {chain.name for chain in wanted.chains}
    return found, Programmed(wanted, node, chains=set(chains))


def needed_chains(entries: Iterable[Entry], node: NodeView) -> list[Chain]:
    """The chains of all choices that the entries need."""
    needed = {choice for entry in entries for choice in choices(Placed(entry, (), ()))}
    return [chain_of(choice, node) for choice in with_parts(needed)]


def _inspect(kernel: Nfnetlink, program: Program, needed: Sequence[Chain]) -> Found:
    """Read the table; elements only when the program and the chains of choices are right."""
    family = NFPROTO[program.family]
    try:
        answer = kernel.get(nft.NFT_MSG_GETTABLE, family, text(nft.NFTA_TABLE_NAME, program.table))
    except Refused as error:
        if error.errno == errno.ENOENT:
            return Found(exists=False)
        raise
    dormant = dump.is_dormant(answer)
    sets = _read_sets(kernel, program.family)
    fixed, healing = split(program)
    others = {name: each for name, each in sets.items() if name not in names.OF_HEALING}
    # A table that another program filled may have hundreds of thousands of rules.
    if dormant or dump.wrong_sets(fixed, others):
        return Found(exists=True, dormant=dormant)
    declared = read_declared(kernel, program)
    misplaced = dump.misplaced_chains(fixed, declared.chains)
    if misplaced or dump.wrong_chains((*fixed.chains, *needed), declared):
        return Found(exists=True)
    healing_sets = {name: each for name, each in sets.items() if name in names.OF_HEALING}
    keep_sets = not dump.wrong_sets(healing, healing_sets)
    switch = _switch(healing, declared, keep_sets=keep_sets)
    in_force = program if keep_sets else fixed
    elements: Elements = {}
    for set_ in in_force.sets:
        is_read = not set_.dynamic or set_.name == names.GONE
        if is_read and set_.name not in _LISTS:
            elements[set_.name] = _read_all(kernel, program, sets[set_.name])
    for name in _LISTS:
        elements[name] = _read_list(kernel, program, sets[name], elements)
    chains = {name for name in declared.chains if name not in names.CHAINS_OF_HEALING}
    chains.update(chain.name for chain in healing.chains)
    return Found(True, True, chains=frozenset(chains), elements=elements, switch=switch)


def split(program: Program) -> tuple[Program, Program]:
    """What is always there, and what healing adds."""
    added = Program(
        program.family,
        program.table,
        program.comment,
        tuple(each for each in program.counters if each in names.COUNTERS_OF_HEALING),
        tuple(each for each in program.sets if each.name in names.OF_HEALING),
        tuple(each for each in program.chains if each.name in names.CHAINS_OF_HEALING),
        program.timeouts,
    )
    sets = tuple(each for each in program.sets if each.name not in names.OF_HEALING)
    chains = tuple(e for e in program.chains if e.name not in names.CHAINS_OF_HEALING)
    counters = tuple(each for each in program.counters if each not in names.COUNTERS_OF_HEALING)
    fixed = msgspec.structs.replace(
        program, counters=counters, sets=sets, chains=chains, timeouts=()
    )
    return fixed, added


def _switch(healing: Program, found: dump.Declared, *, keep_sets: bool) -> tuple[bytes, ...]:
    """What makes the rules for healing as they should be: nothing, if they are.

    Sets that are right stay, with what packets have left in them.
    """
    chains = found.chains.keys() & names.CHAINS_OF_HEALING
    if (
        keep_sets
        and chains == {chain.name for chain in healing.chains}
        and not dump.misplaced_chains(healing, found.chains)
        and not dump.wrong_chains(healing.chains, found)
    ):
        return ()
    sets = () if keep_sets else sorted(found.sets.keys() & names.OF_HEALING)
    made = msgspec.structs.replace(healing, sets=()) if keep_sets else healing
    return (*removal_messages(healing, sorted(chains), sets), *extension_messages(made))


def read_declared(kernel: Nfnetlink, program: Program) -> dump.Declared:
    """What the table has beside elements."""
    family = NFPROTO[program.family]
    of_table = text(nft.NFTA_RULE_TABLE, program.table)
    return dump.Declared(
        _read_sets(kernel, program.family),
        dump.read_chains(kernel.dump(nft.NFT_MSG_GETCHAIN, family), program.table),
        dump.read_rules(kernel.dump(nft.NFT_MSG_GETRULE, family, of_table)),
    )


def has_healing(kernel: Nfnetlink, family: Family) -> bool:
    """Whether the kernel has what healing adds, wanted or not."""
    with tolerating(errno.ENOENT), decoding(f"cannot read the sets of {names.TABLE}"):
        return not names.OF_HEALING.isdisjoint(_read_sets(kernel, family))
    return False


def _read_sets(kernel: Nfnetlink, family: Family) -> dict[str, dump.KernelSet]:
    of_table = text(nft.NFTA_SET_TABLE, names.TABLE)
    return dump.read_sets(kernel.dump(nft.NFT_MSG_GETSET, NFPROTO[family], of_table))


def dump_set(kernel: Nfnetlink, program: Program, name: str) -> list[Message]:
    """The messages that list all elements of a set."""
    payload = nft.set_elements(program.table, name)
    return kernel.dump(nft.NFT_MSG_GETSETELEM, NFPROTO[program.family], payload)


def get_each(
    kernel: Nfnetlink, program: Program, name: str, heads: Sequence[bytes], *, strict: bool = True
) -> Iterator[tuple[Sequence[bytes], list[bytes]]]:
    """Some heads of elements of a set and the kernel's answers, until all have been requested.

    An element that is missing is an error or, if not `strict`, a reason to skip those with it.
    """
    at_once = min(kernel.max_answers, AT_ONCE)
    for start in range(0, len(heads), at_once):
        asked = heads[start : start + at_once]
        payload = nft.set_elements(program.table, name, *map(encoded, asked))
        try:
            answers = kernel.get_each(nft.NFT_MSG_GETSETELEM, NFPROTO[program.family], payload)
        except Refused as error:
            if error.errno != errno.ENOENT or strict:
                raise
        else:
            yield asked, answers


def _read_all(kernel: Nfnetlink, program: Program, set_: dump.KernelSet) -> dict[bytes, bytes]:
    """All elements of a set.

    A dump can miss some while the kernel enlarges a set: then it is shorter than the set's own
    count, and is repeated. Sets of ranges count differently, and are small.
    """
    for _ in range(_DUMP_ATTEMPTS):
        found = dump.read_elements(dump_set(kernel, program, set_.name))
        if set_.count is None or len(found) >= set_.count:
            break
    return found


def _read_list(
    kernel: Nfnetlink, program: Program, set_: dump.KernelSet, elements: Elements
) -> dict[bytes, bytes]:
    """The elements of a map of lists.

    The kernel's dump of a large set takes time with the square of its size (4 s for 240,000
    elements, where asking for each by its key takes 1 s). The choices of the frontends say how
    long their lists are, so the keys are known; the set's own count says whether that is all.
    """
    if set_.count is not None and set_.count >= LARGE_SET:
        choices_map, local = _LISTS[set_.name]
        lengths = {
            number_tail(number): counts_in(chain)[local]
            for chain, number in numbers_in(elements).items()
        }
        heads = [
            each
            for head, tail in elements[choices_map].items()
            for each in list_heads(head[_KEY_AT:], lengths.get(tail, 0))
        ]
        if len(heads) == set_.count:
            with contextlib.suppress(Refused):
                return _read_each(kernel, program, set_.name, heads)
    return _read_all(kernel, program, set_)


def _read_each(
    kernel: Nfnetlink, program: Program, name: str, heads: Sequence[bytes]
) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    size = len(list_tail(Backend(LOOPBACK[program.family].address, 0)))
    for asked, answers in get_each(kernel, program, name, heads):
        # All answers have the same shape; a counter may stand behind the data.
        data_at = answers[0].index(asked[0]) + len(asked[0])
        tails = [answer[data_at : data_at + size] for answer in answers]
        found.update(zip(asked, tails, strict=True))
    return found
