"""Elements and chains that are added and deleted -> the messages of one transaction.

Elements are packed into messages of at most 64 KB, the largest attribute that netlink has.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kubeproxy.dataplane.nftables import encode, names
from kubeproxy.dataplane.nftables.chainnumbers import chain_elements
from kubeproxy.dataplane.nftables.dump import listed, name_in
from kubeproxy.dataplane.nftables.elements import ElementKey, is_end
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import Chain, Program
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import ATTRIBUTE, NLM_F_CREATE, decode
from kubeproxy.linux.netlink.nfnetlink import attributes_in, request

_LARGEST = 65532 - 4  # of a nested attribute, padding included
# What stands before an element of so many bytes; the longest has the name of a chain.
_HEADERS = [ATTRIBUTE.pack(4 + size, nft.NFTA_LIST_ELEM) for size in range(512)]


# A first fill may take several transactions. In this order every moment is correct: lists before
# the frontends that draw from them, and what guards a frontend before the frontend.
FILLING_ORDER = (
    names.SERVICE_ENDPOINTS,
    names.SERVICE_LOCAL_ENDPOINTS,
    names.NODEPORT_ENDPOINTS,
    names.NODEPORT_LOCAL_ENDPOINTS,
    *names.PINNED.values(),
    names.FIREWALL_SOURCES,
    names.FIREWALL_IPS,
    names.HAIRPINS,
    names.SERVICE_AFFINITY,
    names.NODEPORT_AFFINITY,
    names.REMEMBER_CHAINS,
    names.REMEMBER_SERVICES,
    names.REMEMBER_NODEPORTS,
    names.SERVICE_CONNECTIONS,
    names.NODEPORT_CONNECTIONS,
    names.LOCALHOST_NODEPORTS,
    names.CLUSTER_IPS,
    names.NODEPORT_ADDRESSES,
    names.CHOICE_CHAINS,
    names.NODEPORT_CHOICES,
    names.SERVICE_CHOICES,
    names.NODEPORT_REFUSALS,
    names.NODEPORT_DROPS,
    names.SERVICE_REFUSALS,
    names.SERVICE_DROPS,
    names.SERVICE_CIDRS,
    *names.RETRY_REFUSED.values(),
    *names.RETRY_UNANSWERED.values(),
    *names.RETRY_STICKY.values(),
    *names.RESET_GONE.values(),
    names.GONE,
    names.GONE_ANY,
)


class Batch(msgspec.Struct):
    """What one transaction does to the elements and chains of the table.

    Sets that are `flushed` are emptied before elements are added. What is `deleted_last` may have
    been added just before.
    """

    chains: list[Chain] = []
    deleted: dict[str, list[bytes]] = {}
    flushed: list[str] = []
    added: dict[str, list[bytes]] = {}
    deleted_last: dict[str, list[bytes]] = {}

    def change(
        self, name: str, before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]
    ) -> None:
        """Make the elements of a set others; one with other data is deleted and added."""
        if before == after:
            return
        if name in names.RANGE_SETS:
            self.flushed.append(name)
            self.added[name] = _ranges(after)
            return
        gone = [encoded(at) for at, tail in before.items() if after.get(at) != tail]
        if before:
            come = [encoded(at + tail) for at, tail in after.items() if before.get(at) != tail]
        else:  # at a start: a quarter of a million of them
            come = [_HEADERS[len(at) + len(tail)] + at + tail for at, tail in after.items()]
        if gone:
            self.deleted.setdefault(name, []).extend(gone)
        if come:
            self.added.setdefault(name, []).extend(come)

    @property
    def count(self) -> int:
        """How many kernel objects it touches."""
        listed = [*self.deleted.values(), *self.added.values(), *self.deleted_last.values()]
        return sum(map(len, listed)) + len(self.chains) + len(self.flushed)


def encoded(body: bytes) -> bytes:
    """An element in a list of elements."""
    return _HEADERS[len(body)] + body


def _ranges(bounds: Iterable[bytes]) -> list[bytes]:
    """The ranges of a set, each with its beginning and its end together.

    One that has no end, because it reaches to the last address, is the last.
    """
    found: list[bytes] = []
    for bound in bounds:
        if is_end(bound):
            found[-1] += encoded(bound)
        else:
            found.append(encoded(bound))
    return found


def program_messages(program: Program) -> list[bytes]:
    """Make the table and all that is fixed in it."""
    return [
        encode.new_table(program),
        *(encode.new_counter(program, name) for name in program.counters),
        *(encode.new_timeout(program, timeout) for timeout in program.timeouts),
        *(encode.new_set(program, set_, number) for number, set_ in enumerate(program.sets, 1)),
        *(encode.new_chain(program, chain) for chain in program.chains),
        *_rules(program, program.chains),
    ]


def _rules(program: Program, chains: Sequence[Chain]) -> list[bytes]:
    """Add the rules of chains, which may lead to each other and exist already."""
    return [encode.new_rule(program, chain.name, rule) for chain in chains for rule in chain.rules]


def element_messages(
    program: Program, name: str, elements: Iterable[bytes], *, delete: bool = False
) -> list[bytes]:
    """Add elements to a set, or remove them."""
    kind, flags = (nft.NFT_MSG_DELSETELEM, 0) if delete else (nft.NFT_MSG_NEWSETELEM, NLM_F_CREATE)
    family = NFPROTO[program.family]
    return [
        request(kind, family, nft.set_elements(program.table, name, *part), flags)
        for part in pieces(elements, _LARGEST)
    ]


def batch_messages(program: Program, batch: Batch) -> list[bytes]:
    """All messages of a batch, in an order in which each finds what it refers to."""
    messages = [encode.new_chain(program, chain) for chain in batch.chains]
    # One that was left idle comes back with whatever rules it had.
    messages += [encode.flush_chain(program, chain.name) for chain in batch.chains]
    messages += _rules(program, batch.chains)
    for name, elements in batch.deleted.items():
        messages += element_messages(program, name, elements, delete=True)
    for name in sorted({*batch.added, *batch.flushed}, key=FILLING_ORDER.index):
        if name in batch.flushed:
            all_elements = nft.set_elements(program.table, name)
            family = NFPROTO[program.family]
            messages.append(request(nft.NFT_MSG_DELSETELEM, family, all_elements))
        messages += element_messages(program, name, batch.added.get(name, ()))
    for name, elements in batch.deleted_last.items():
        messages += element_messages(program, name, elements, delete=True)
    return messages


def extension_messages(program: Program) -> list[bytes]:
    """Make a part of the program in a table that has the rest."""
    _, *others = program_messages(program)
    return others


def removal_messages(
    program: Program, chains: Collection[str], sets: Collection[str]
) -> list[bytes]:
    """Remove these chains and sets, and the time-outs and counters that the chains use."""
    return [
        *(encode.flush_chain(program, name) for name in chains),
        *(encode.delete_chain(program, name) for name in chains),
        *(encode.delete_set(program, name) for name in sets),
        *((encode.delete_timeout(program, names.SYN_TIMEOUT),) if chains else ()),
        *(encode.delete_counter(program, name) for name in names.COUNTERS_OF_HEALING if chains),
    ]


def chain_deletions(
    program: Program, unused: Sequence[str], numbers: Mapping[str, int]
) -> list[bytes]:
    """Delete chains, which may lead to each other, and the elements that lead to them."""
    leading = chain_elements({chain: numbers[chain] for chain in unused if chain in numbers})
    return [
        *(
            message
            for name, elements in leading.items()
            for message in element_messages(program, name, map(encoded, elements), delete=True)
        ),
        *(encode.flush_chain(program, name) for name in unused),
        *(encode.delete_chain(program, name) for name in unused),
    ]


def pieces(messages: Iterable[bytes], limit: int) -> list[list[bytes]]:
    """The messages in order, in groups of at most so many bytes."""
    found: list[list[bytes]] = []
    part: list[bytes] = []
    size = limit
    for message in messages:
        if size + len(message) > limit:
            part, size = [], 0
            found.append(part)
        part.append(message)
        size += len(message)
    return found


def element_at(message: bytes, offset: int) -> ElementKey | None:
    """The element of a message that an offset points at, as its set and what identifies it."""
    (sent,) = decode(message)
    if sent.type not in {nft.NFT_MSG_NEWSETELEM, nft.NFT_MSG_DELSETELEM}:
        return None
    body = attributes_in(sent)
    elements = body[nft.NFTA_SET_ELEM_LIST_ELEMENTS]
    start = len(message) - len(elements) - (-len(elements) % 4)
    for position, element in listed(elements):
        if start + position <= offset < start + position + ATTRIBUTE.size + len(element):
            return name_in(body[nft.NFTA_SET_ELEM_LIST_SET]), element
    return None
