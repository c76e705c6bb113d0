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
    nft.NFTA_SET_TIMEOUT,
    nft.NFTA_SET_USERDATA,
)
_HEAD = (nft.NFTA_SET_ELEM_KEY, nft.NFTA_SET_ELEM_KEY_END, nft.NFTA_SET_ELEM_FLAGS)
_ATTACHED = (nft.NFTA_CHAIN_HOOK, nft.NFTA_CHAIN_POLICY, nft.NFTA_CHAIN_TYPE)
_BYTEORDER = b"byteorder\0"


KernelChain = dict[int, bytes]
"""How a chain is attached to the path of packets, as attributes; none if it is not."""


class KernelSet(msgspec.Struct, frozen=True):
    """A set as the kernel knows it; older kernels do not say how many elements it has."""

    name: str
    declaration: dict[int, bytes]
    count: int | None = None


class KernelRule(NamedTuple):
    """A rule as the kernel knows it: its expressions, and the number that it goes by."""

    expressions: bytes
    handle: int


class Declared(msgspec.Struct, frozen=True):
    """What the kernel's table has beside elements; rules by chain and in order."""

    sets: Mapping[str, KernelSet] = {}
    chains: Mapping[str, KernelChain] = {}
    rules: Mapping[str, Sequence[KernelRule]] = {}


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
        if name_in(chain[nft.NFTA_CHAIN_TABLE]) == table:
            attached = {kind: chain[kind] for kind in _ATTACHED if kind in chain}
            found[name_in(chain[nft.NFTA_CHAIN_NAME])] = attached
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
        found |= elements_in(list_in(message))
    return found


def elements_in(data: bytes) -> dict[bytes, bytes]:
    """The elements of a list: heads and tails."""
    plain = _plain_elements(data)
    return dict(_any_elements(data) if plain is None else plain)


def _plain_elements(data: bytes) -> Iterator[tuple[bytes, bytes]] | None:
    """Elements that begin with a key and data, all of one size.

    These are the endpoints, hundreds of thousands of them, and the pins of clients, which have a
    time-out behind; taking them apart at fixed offsets is six times as fast as `_any_elements`,
    which is the oracle for it. None when it does not fit.
    """
    if len(data) < 12:
        return None
    size, _ = ATTRIBUTE.unpack_from(data)
    key, kind = ATTRIBUTE.unpack_from(data, 4)
    is_key = kind & NLA_TYPE_MASK == nft.NFTA_SET_ELEM_KEY
    if not is_key or size % 4 or len(data) % size or 4 + key + 4 > size:
        return None
    rest, kind = ATTRIBUTE.unpack_from(data, 4 + key)
    behind = size - 4 - key - rest
    if kind & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_DATA or behind < 0:
        return None
    found = list(Struct(f"=4s{key}s{rest}s{behind}x").iter_unpack(data))
    header, first, last = (each[:4] for each in found[0])
    if all(h == header and k[:4] == first and d[:4] == last for h, k, d in found):
        return ((head, tail) for _, head, tail in found)
    return None


def _any_elements(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Elements of any shape; counters and time-outs are not part of what they are."""
    for _, element in listed(data):
        parts = attributes(element)
        yield _only(parts, *_HEAD), _only(parts, nft.NFTA_SET_ELEM_DATA)


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


def list_in(message: Message) -> bytes:
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


def verdict_in(tail: bytes) -> tuple[int, str]:
    """The kernel's code of the verdict in a tail, and the chain that it leads to, if any."""
    verdict = attributes(attributes(tail[ATTRIBUTE.size :])[nft.NFTA_DATA_VERDICT])
    code = int.from_bytes(verdict[nft.NFTA_VERDICT_CODE], signed=True)
    return code, name_in(verdict.get(nft.NFTA_VERDICT_CHAIN, b""))


def name_in(value: bytes) -> str:
    """A name; other programs may use any bytes in theirs."""
    return value.rstrip(b"\0").decode(errors="surrogateescape")
