"""The kernel's answers -> the state of our table, and whether that is the program.

Elements are in the terms of `elements`, and rules in those of `expressions`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

from kubeproxy.dataplane.nftables.encode import new_chain, new_set
from kubeproxy.dataplane.nftables.expressions import encode_rule, expression
from kubeproxy.dataplane.nftables.language import Chain, Program
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, text
from kubeproxy.linux.netlink.message import ATTRIBUTE, NLA_TYPE_MASK, Message, attributes, decode
from kubeproxy.linux.netlink.nfnetlink import attributes_in

# Attributes of a set that its declaration consists of; others (handles, sizes) change by use.
_DECLARATION = (
    nft.NFTA_SET_FLAGS,
    nft.NFTA_SET_KEY_TYPE,
    nft.NFTA_SET_KEY_LEN,
    nft.NFTA_SET_DATA_TYPE,
    nft.NFTA_SET_DATA_LEN,
    nft.NFTA_SET_USERDATA,
)
_HEAD = (nft.NFTA_SET_ELEM_KEY, nft.NFTA_SET_ELEM_KEY_END, nft.NFTA_SET_ELEM_FLAGS)
_ACCEPT = nft.NF_ACCEPT.to_bytes(4)
_BYTEORDER = b"byteorder\0"


class KernelSet(msgspec.Struct, frozen=True):
    """A set as the kernel knows it; older kernels do not say how many elements it has."""

    name: str
    declaration: dict[int, bytes]
    count: int | None = None


class KernelChain(msgspec.Struct, frozen=True):
    """A chain as the kernel knows it; `hook` is (number, priority, type) of a base chain.

    `accepts` says what becomes of packets that reach the end of a base chain.
    """

    name: str
    hook: tuple[int, int, str] | None = None
    accepts: bool = True


class KernelRule(NamedTuple):
    """A rule as the kernel knows it: its expressions, and the number that it goes by."""

    expressions: bytes
    handle: int


class Declared(msgspec.Struct, frozen=True):
    """What the kernel's table has beside elements; rules by chain and in order."""

    sets: Mapping[str, KernelSet] = {}
    chains: Mapping[str, KernelChain] = {}
    rules: Mapping[str, Sequence[KernelRule]] = {}


def is_program(found: Declared, program: Program, choices: Iterable[Chain]) -> bool:
    """Whether it is the program, and those of the chains of choices that exist are right."""
    return not (
        wrong_sets(program, found.sets)
        or misplaced_chains(program, found.chains)
        or wrong_chains((*program.chains, *choices), found)
    )


def wrong_sets(program: Program, found: Mapping[str, KernelSet]) -> list[str]:
    """Sets that are missing, declared otherwise, or not the program's."""
    wanted = read_sets(_sent(new_set(program, set_, 1) for set_ in program.sets))
    expected = {name: set_.declaration for name, set_ in wanted.items()}
    actual = {name: set_.declaration for name, set_ in found.items()}
    return [name for name in expected | actual if expected.get(name) != actual.get(name)]


def misplaced_chains(program: Program, found: Mapping[str, KernelChain]) -> list[Chain]:
    """Chains of the program that are missing, or attached otherwise to the path of packets."""
    sent = _sent(new_chain(program, chain) for chain in program.chains)
    wanted = read_chains(sent, program.table)
    return [chain for chain in program.chains if found.get(chain.name) != wanted[chain.name]]


def _sent(messages: Iterable[bytes]) -> Iterator[Message]:
    """Messages for the kernel, to be read as if it had sent them."""
    return (message for data in messages for message in decode(data))


def wrong_chains(chains: Iterable[Chain], found: Declared) -> list[Chain]:
    """Those of the chains that exist and have other rules."""
    return [
        chain
        for chain in chains
        if chain.name in found.chains
        and [encode_rule(rule) for rule in chain.rules]
        != [rule.expressions for rule in found.rules.get(chain.name, ())]
    ]


def read_sets(messages: Iterable[Message]) -> dict[str, KernelSet]:
    """Sets by name."""
    found = {}
    for message in messages:
        parts = attributes_in(message)
        name = name_in(parts[nft.NFTA_SET_NAME])
        count = parts.get(nft.NFTA_SET_COUNT)
        known = None if count is None else int.from_bytes(count)
        declaration = {kind: parts[kind] for kind in _DECLARATION if kind in parts}
        found[name] = KernelSet(name, declaration, known)
    return found


def read_chains(messages: Iterable[Message], table: str) -> dict[str, KernelChain]:
    """Chains of the table by name; the kernel lists those of all tables of the family."""
    found = {}
    for message in messages:
        chain = attributes_in(message)
        if name_in(chain[nft.NFTA_CHAIN_TABLE]) != table:
            continue
        name = name_in(chain[nft.NFTA_CHAIN_NAME])
        hook = None
        if nft.NFTA_CHAIN_HOOK in chain:
            place = attributes(chain[nft.NFTA_CHAIN_HOOK])
            number = int.from_bytes(place[nft.NFTA_HOOK_HOOKNUM])
            priority = int.from_bytes(place[nft.NFTA_HOOK_PRIORITY], signed=True)
            hook = (number, priority, name_in(chain[nft.NFTA_CHAIN_TYPE]))
        accepts = chain.get(nft.NFTA_CHAIN_POLICY, _ACCEPT) == _ACCEPT
        found[name] = KernelChain(name, hook, accepts)
    return found


def is_dormant(message: Message) -> bool:
    """Whether a table, as the kernel describes it, is switched off."""
    flags = attributes_in(message).get(nft.NFTA_TABLE_FLAGS, b"")
    return bool(int.from_bytes(flags) & nft.NFT_TABLE_F_DORMANT)


def read_rules(messages: Iterable[Message]) -> dict[str, list[KernelRule]]:
    """The rules, by chain and in order."""
    found: dict[str, list[KernelRule]] = {}
    for message in messages:
        rule = attributes_in(message)
        handle = int.from_bytes(rule[nft.NFTA_RULE_HANDLE])
        kept = KernelRule(_as_encoded(rule.get(nft.NFTA_RULE_EXPRESSIONS, b"")), handle)
        found.setdefault(name_in(rule[nft.NFTA_RULE_CHAIN]), []).append(kept)
    return found


def _as_encoded(expressions: bytes) -> bytes:
    """Expressions of a rule with their attributes in the order in which we write them.

    Linux 7.2 lists those of `byteorder` in another order than the kernels before it.
    """
    if _BYTEORDER not in expressions:
        return expressions
    return b"".join(_ordered(part) for _, part in listed(expressions))


def _ordered(part: bytes) -> bytes:
    parts = attributes(part)
    if parts[nft.NFTA_EXPR_NAME] != _BYTEORDER:
        return attribute(nft.NFTA_LIST_ELEM, part)
    data = attributes(parts[nft.NFTA_EXPR_DATA])
    return expression("byteorder", *(attribute(kind, data[kind]) for kind in sorted(data)))


def read_elements(messages: Iterable[Message]) -> dict[bytes, bytes]:
    """The elements of one set: heads and tails."""
    found: dict[bytes, bytes] = {}
    for message in messages:
        elements = elements_in(message)
        plain = _plain_elements(elements)
        found.update(_any_elements(elements) if plain is None else plain)
    return found


def _plain_elements(data: bytes) -> Iterator[tuple[bytes, bytes]] | None:
    """Elements that begin with a key and data, all of one size.

    These are the endpoints, hundreds of thousands of them, and the pins of clients, which have a
    time-out behind; taking them apart at fixed offsets is six times as fast as `_any_elements`,
    which is the oracle for it. None when it does not fit.
    """
    if len(data) < 12:
        return None
    size = int.from_bytes(data[:2], "little")
    headers = data[:8]
    length, kind = ATTRIBUTE.unpack(data[4:8])
    cut = 4 + length
    if (
        kind & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_KEY
        or size % 4
        or len(data) % size
        or cut + 4 > size
    ):
        return None
    data_header = data[cut : cut + 4]
    length, kind = ATTRIBUTE.unpack(data_header)
    end = cut + length
    if kind & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_DATA or end > size:
        return None
    starts = range(0, len(data), size)
    if not all(
        data[at : at + 8] == headers and data[at + cut : at + cut + 4] == data_header
        for at in starts
    ):
        return None
    return ((data[at + 4 : at + cut], data[at + cut : at + end]) for at in starts)


def _any_elements(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Elements of any shape; counters and time-outs are not part of what they are."""
    for _, element in listed(data):
        parts = attributes(element)
        yield (
            _only(
                parts, nft.NFTA_SET_ELEM_KEY, nft.NFTA_SET_ELEM_KEY_END, nft.NFTA_SET_ELEM_FLAGS
            ),
            _only(parts, nft.NFTA_SET_ELEM_DATA),
        )


def _only(parts: Mapping[int, bytes], *kinds: int) -> bytes:
    return b"".join(attribute(kind, parts[kind]) for kind in kinds if kind in parts)


def listed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a list in their order: where each begins, and what is in it."""
    offset = 0
    while offset + ATTRIBUTE.size <= len(data):
        length, _ = ATTRIBUTE.unpack_from(data, offset)
        if length < ATTRIBUTE.size:
            return
        yield offset, data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def elements_in(message: Message) -> bytes:
    """The list of elements in a message that lists some."""
    return attributes_in(message).get(nft.NFTA_SET_ELEM_LIST_ELEMENTS, b"")


def table_handle(message: Message) -> int:
    """The number that the kernel gave to a table: one that is made again has another."""
    return int.from_bytes(attributes_in(message)[nft.NFTA_TABLE_HANDLE])


def counts_in(data: bytes) -> dict[bytes, int]:
    """The packet counts of a list of elements that count, by key and data.

    All elements of a set have one shape, so they can be taken apart at fixed offsets: ten times
    as fast as `any_counts`, which is the oracle for it.
    """
    shape = _counted_shape(data)
    if shape is None:
        return dict(any_counts(data))
    found = {}
    first = data[: _HEADERS.size]
    for headers, key, rest, name, _, packets in shape.iter_unpack(data):
        if headers != first or name != _COUNTER_NAME:
            return dict(any_counts(data))
        found[key + rest[8:]] = int.from_bytes(packets)
    return found


_HEADERS = Struct("=12s")  # of the element, of its key, and of the key's value
_COUNTER_NAME = text(nft.NFTA_EXPR_NAME, "counter")


def _counted_shape(data: bytes) -> Struct | None:
    """How elements are laid out: headers, key, data, name of the expression, bytes, packets."""
    size = int.from_bytes(data[:2], "little")
    if size < 12 or len(data) % size or size % 4:
        return None
    key = int.from_bytes(data[8:10], "little") - 4
    at = _HEADERS.size + key
    rest = 0
    length, kind = ATTRIBUTE.unpack_from(data, at)
    if kind & NLA_TYPE_MASK == nft.NFTA_SET_ELEM_DATA:
        rest = length
        length, kind = ATTRIBUTE.unpack_from(data, at + rest)
    is_counter = kind & NLA_TYPE_MASK == nft.NFTA_SET_ELEM_EXPR and length == 44
    if not is_counter or at + rest + length != size:
        return None
    return Struct(f"=12s{key}s{rest}s4x{len(_COUNTER_NAME)}s4x4x8s4x8s")


def any_counts(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The key and data, and the packet count, of elements of any shape that count."""
    for _, element in listed(data):
        parts = attributes(element)
        key = attributes(parts[nft.NFTA_SET_ELEM_KEY])[nft.NFTA_DATA_VALUE]
        data_part = attributes(parts.get(nft.NFTA_SET_ELEM_DATA, b""))
        value = data_part.get(nft.NFTA_DATA_VALUE, b"")
        counter = attributes(attributes(parts[nft.NFTA_SET_ELEM_EXPR])[nft.NFTA_EXPR_DATA])
        yield key + value, int.from_bytes(counter[nft.NFTA_COUNTER_PACKETS])


def chain_in(tail: bytes) -> str:
    """The chain that the tail of a verdict map's element leads to; "" when it is none."""
    return name_in(_verdict(tail).get(nft.NFTA_VERDICT_CHAIN, b""))


def code_in(tail: bytes) -> int:
    """The kernel's code of the verdict in the tail of a verdict map's element."""
    return int.from_bytes(_verdict(tail)[nft.NFTA_VERDICT_CODE], signed=True)


def _verdict(tail: bytes) -> dict[int, bytes]:
    return attributes(attributes(tail[ATTRIBUTE.size :])[nft.NFTA_DATA_VERDICT])


def name_in(value: bytes) -> str:
    """A name; other programs may use any bytes in theirs."""
    return value.rstrip(b"\0").decode(errors="surrogateescape")
