"""The kernel's answers -> the state of our table, in the terms of `elements` and `encode`."""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

import msgspec

from kubeproxy.dataplane.nftables.elements import (
    NFTA_SET_ELEM_DATA,
    NFTA_SET_ELEM_FLAGS,
    NFTA_SET_ELEM_KEY,
    NFTA_SET_ELEM_KEY_END,
)
from kubeproxy.dataplane.nftables.expressions import NFTA_DATA_VERDICT
from kubeproxy.linux.netlink.attribute import attribute
from kubeproxy.linux.netlink.message import Message, attributes

_NFGENMSG = 4
_ATTRIBUTE = Struct("=HH")
_TYPE_MASK = 0x3FFF

# Attributes of a set that say what it is; others (handles, sizes) say how it fares.
_DECLARATION = (3, 4, 5, 6, 7, 13)


_SET_COUNT = 20
_ACCEPT = (1).to_bytes(4, "big")
_DORMANT = 1


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
    """What a NEWSET message says of a set, as far as it identifies the program's set."""
    found = attributes(payload)
    return {kind: found[kind] for kind in _DECLARATION if kind in found}


def read_sets(messages: Iterable[Message]) -> dict[str, KernelSet]:
    """Sets by name."""
    found = {}
    for message in messages:
        payload = message.payload[_NFGENMSG:]
        parts = attributes(payload)
        name = _text(parts[2])
        count = int.from_bytes(parts[_SET_COUNT], "big") if _SET_COUNT in parts else None
        found[name] = KernelSet(name, declaration(payload), count)
    return found


def read_chains(messages: Iterable[Message], table: str) -> dict[str, KernelChain]:
    """Chains of the table by name; the kernel lists those of all tables of the family."""
    found = {}
    for message in messages:
        chain = attributes(message.payload[_NFGENMSG:])
        if _text(chain[1]) != table:
            continue
        name = _text(chain[3])
        hook = None
        if 4 in chain:
            place = attributes(chain[4])
            priority = int.from_bytes(place[2], "big", signed=True)
            hook = (int.from_bytes(place[1], "big"), priority, _text(chain[7]))
        found[name] = KernelChain(name, hook, chain.get(5, _ACCEPT) == _ACCEPT)
    return found


def is_dormant(message: Message) -> bool:
    """Whether a table, as the kernel describes it, is switched off."""
    flags = attributes(message.payload[_NFGENMSG:]).get(2, b"")
    return bool(int.from_bytes(flags, "big") & _DORMANT)


def read_rules(messages: Iterable[Message]) -> dict[str, list[KernelRule]]:
    """The rules, by chain and in order."""
    found: dict[str, list[KernelRule]] = {}
    for message in messages:
        rule = attributes(message.payload[_NFGENMSG:])
        kept = KernelRule(rule.get(4, b""), int.from_bytes(rule[3], "big"))
        found.setdefault(_text(rule[2]), []).append(kept)
    return found


def read_elements(messages: Iterable[Message]) -> dict[bytes, bytes]:
    """The elements of one set: heads and tails."""
    found: dict[bytes, bytes] = {}
    for message in messages:
        elements = attributes(message.payload[_NFGENMSG:]).get(3, b"")
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
    length, first = _ATTRIBUTE.unpack(first_header)
    cut = 4 + length
    if first & _TYPE_MASK != NFTA_SET_ELEM_KEY or size % 4 or len(data) % size or cut + 4 > size:
        return None
    second_header = data[cut : cut + 4]
    rest, kind = _ATTRIBUTE.unpack(second_header)
    end = cut + rest
    if kind & _TYPE_MASK != NFTA_SET_ELEM_DATA or end > size:
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
        length, _ = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        parts = attributes(data[offset + 4 : offset + length])
        head = b"".join(
            attribute(kind, parts[kind])
            for kind in (NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_KEY_END, NFTA_SET_ELEM_FLAGS)
            if kind in parts
        )
        data_part = parts.get(NFTA_SET_ELEM_DATA)
        tail = attribute(NFTA_SET_ELEM_DATA, data_part) if data_part is not None else b""
        yield head, tail
        offset += (length + 3) & ~3


def elements_in(message: Message) -> bytes:
    """The list of elements in a message that lists some."""
    return attributes(message.payload[_NFGENMSG:]).get(3, b"")


def table_handle(message: Message) -> int:
    """The number that the kernel gave to a table: one that is made anew has another."""
    return int.from_bytes(attributes(message.payload[_NFGENMSG:])[_TABLE_HANDLE], "big")


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
_COUNTER_NAME = attribute(1, b"counter\0")
_TABLE_HANDLE = 4
_NFTA_SET_ELEM_EXPR = 7


def _counted_shape(data: bytes) -> Struct | None:
    """How elements are laid out: headers, key, data, name of the expression, bytes, packets."""
    size = int.from_bytes(data[:2], "little")
    if size < 12 or len(data) % size or size % 4:
        return None
    key = int.from_bytes(data[8:10], "little") - 4
    at = _HEADERS.size + key
    rest = 0
    length, kind = _ATTRIBUTE.unpack_from(data, at)
    if kind & _TYPE_MASK == NFTA_SET_ELEM_DATA:
        rest = length
        length, kind = _ATTRIBUTE.unpack_from(data, at + rest)
    if kind & _TYPE_MASK != _NFTA_SET_ELEM_EXPR or at + rest + length != size or length != 44:
        return None
    return Struct(f"=12s{key}s{rest}s4x{len(_COUNTER_NAME)}s4x4x8s4x8s")


def any_counts(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The key and data, and the packet count, of elements of any shape that count."""
    offset = 0
    while offset + 4 <= len(data):
        length, _ = _ATTRIBUTE.unpack_from(data, offset)
        parts = attributes(data[offset + 4 : offset + length])
        key = attributes(parts[NFTA_SET_ELEM_KEY])[1]
        value = attributes(parts.get(NFTA_SET_ELEM_DATA, b"")).get(1, b"")
        counter = attributes(attributes(parts[_NFTA_SET_ELEM_EXPR])[2])
        yield key + value, int.from_bytes(counter[2], "big")
        offset += (length + 3) & ~3


def chain_in(tail: bytes) -> str:
    """The chain that the tail of a verdict map's element leads to; "" when it is none."""
    verdict = attributes(attributes(tail[4:])[NFTA_DATA_VERDICT])
    return _text(verdict.get(2, b""))


def code_in(tail: bytes) -> int:
    """The kernel's code of the verdict in the tail of a verdict map's element."""
    verdict = attributes(attributes(tail[4:])[NFTA_DATA_VERDICT])
    return int.from_bytes(verdict[1], "big", signed=True)


def _text(value: bytes) -> str:
    """A name; those of others may be any bytes."""
    return value.rstrip(b"\0").decode(errors="surrogateescape")
