"""The kernel's answers -> the state of our table, in the terms of `elements` and `encode`."""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

import msgspec

from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, text
from kubeproxy.linux.netlink.message import ATTRIBUTE, NLA_TYPE_MASK, Message, attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, attributes_in

# Attributes of a set that its declaration consists of; others (handles, sizes) change by use.
_DECLARATION = (
    nft.NFTA_SET_FLAGS,
    nft.NFTA_SET_KEY_TYPE,
    nft.NFTA_SET_KEY_LEN,
    nft.NFTA_SET_DATA_TYPE,
    nft.NFTA_SET_DATA_LEN,
    nft.NFTA_SET_USERDATA,
)
_ACCEPT = nft.NF_ACCEPT.to_bytes(4, "big")


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


def declaration(payload: bytes) -> dict[int, bytes]:
    """Of the attributes in a NEWSET message, those that the set is declared with."""
    found = attributes(payload)
    return {kind: found[kind] for kind in _DECLARATION if kind in found}


def read_sets(messages: Iterable[Message]) -> dict[str, KernelSet]:
    """Sets by name."""
    found = {}
    for message in messages:
        parts = attributes_in(message)
        name = _text(parts[nft.NFTA_SET_NAME])
        count = parts.get(nft.NFTA_SET_COUNT)
        declared = declaration(message.payload[NFGENMSG.size :])
        known = None if count is None else int.from_bytes(count, "big")
        found[name] = KernelSet(name, declared, known)
    return found


def read_chains(messages: Iterable[Message], table: str) -> dict[str, KernelChain]:
    """Chains of the table by name; the kernel lists those of all tables of the family."""
    found = {}
    for message in messages:
        chain = attributes_in(message)
        if _text(chain[nft.NFTA_CHAIN_TABLE]) != table:
            continue
        name = _text(chain[nft.NFTA_CHAIN_NAME])
        hook = None
        if nft.NFTA_CHAIN_HOOK in chain:
            place = attributes(chain[nft.NFTA_CHAIN_HOOK])
            number = int.from_bytes(place[nft.NFTA_HOOK_HOOKNUM], "big")
            priority = int.from_bytes(place[nft.NFTA_HOOK_PRIORITY], "big", signed=True)
            hook = (number, priority, _text(chain[nft.NFTA_CHAIN_TYPE]))
        accepts = chain.get(nft.NFTA_CHAIN_POLICY, _ACCEPT) == _ACCEPT
        found[name] = KernelChain(name, hook, accepts)
    return found


def is_dormant(message: Message) -> bool:
    """Whether a table, as the kernel describes it, is switched off."""
    flags = attributes_in(message).get(nft.NFTA_TABLE_FLAGS, b"")
    return bool(int.from_bytes(flags, "big") & nft.NFT_TABLE_F_DORMANT)


def read_rules(messages: Iterable[Message]) -> dict[str, list[KernelRule]]:
    """The rules, by chain and in order."""
    found: dict[str, list[KernelRule]] = {}
    for message in messages:
        rule = attributes_in(message)
        expressions = rule.get(nft.NFTA_RULE_EXPRESSIONS, b"")
        kept = KernelRule(expressions, int.from_bytes(rule[nft.NFTA_RULE_HANDLE], "big"))
        found.setdefault(_text(rule[nft.NFTA_RULE_CHAIN]), []).append(kept)
    return found


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
    first_header = data[4:8]
    length, first = ATTRIBUTE.unpack(first_header)
    cut = 4 + length
    if (
        first & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_KEY
        or size % 4
        or len(data) % size
        or cut + 4 > size
    ):
        return None
    second_header = data[cut : cut + 4]
    rest, kind = ATTRIBUTE.unpack(second_header)
    end = cut + rest
    if kind & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_DATA or end > size:
        return None
    starts = range(0, len(data), size)
    header = data[:4]
    if not all(
        data[at : at + 8] == header + first_header
        and data[at + cut : at + cut + 4] == second_header
        for at in starts
    ):
        return None
    return ((data[at + 4 : at + cut], data[at + cut : at + end]) for at in starts)


def _any_elements(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Elements of any shape; counters and time-outs are not part of what they are."""
    offset = 0
    while offset + 4 <= len(data):
        length, _ = ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        parts = attributes(data[offset + 4 : offset + length])
        head = b"".join(
            attribute(kind, parts[kind])
            for kind in (nft.NFTA_SET_ELEM_KEY, nft.NFTA_SET_ELEM_KEY_END, nft.NFTA_SET_ELEM_FLAGS)
            if kind in parts
        )
        data_part = parts.get(nft.NFTA_SET_ELEM_DATA)
        tail = attribute(nft.NFTA_SET_ELEM_DATA, data_part) if data_part is not None else b""
        yield head, tail
        offset += (length + 3) & ~3


def elements_in(message: Message) -> bytes:
    """The list of elements in a message that lists some."""
    return attributes_in(message).get(nft.NFTA_SET_ELEM_LIST_ELEMENTS, b"")


def table_handle(message: Message) -> int:
    """The number that the kernel gave to a table: one that is made again has another."""
    return int.from_bytes(attributes_in(message)[nft.NFTA_TABLE_HANDLE], "big")


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
        found[key + rest[8:]] = int.from_bytes(packets, "big")
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
    if (
        kind & NLA_TYPE_MASK != nft.NFTA_SET_ELEM_EXPR
        or at + rest + length != size
        or length != 44
    ):
        return None
    return Struct(f"=12s{key}s{rest}s4x{len(_COUNTER_NAME)}s4x4x8s4x8s")


def any_counts(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The key and data, and the packet count, of elements of any shape that count."""
    offset = 0
    while offset + 4 <= len(data):
        length, _ = ATTRIBUTE.unpack_from(data, offset)
        parts = attributes(data[offset + 4 : offset + length])
        key = attributes(parts[nft.NFTA_SET_ELEM_KEY])[nft.NFTA_DATA_VALUE]
        data_part = attributes(parts.get(nft.NFTA_SET_ELEM_DATA, b""))
        value = data_part.get(nft.NFTA_DATA_VALUE, b"")
        counter = attributes(attributes(parts[nft.NFTA_SET_ELEM_EXPR])[nft.NFTA_EXPR_DATA])
        yield key + value, int.from_bytes(counter[nft.NFTA_COUNTER_PACKETS], "big")
        offset += (length + 3) & ~3


def chain_in(tail: bytes) -> str:
    """The chain that the tail of a verdict map's element leads to; "" when it is none."""
    return _text(_verdict(tail).get(nft.NFTA_VERDICT_CHAIN, b""))


def code_in(tail: bytes) -> int:
    """The kernel's code of the verdict in the tail of a verdict map's element."""
    return int.from_bytes(_verdict(tail)[nft.NFTA_VERDICT_CODE], "big", signed=True)


def _verdict(tail: bytes) -> dict[int, bytes]:
    return attributes(attributes(tail[ATTRIBUTE.size :])[nft.NFTA_DATA_VERDICT])


def _text(value: bytes) -> str:
    """A name; those of others may be any bytes."""
    return value.rstrip(b"\0").decode(errors="surrogateescape")
