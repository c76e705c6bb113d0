"""Statements -> the kernel's expressions, as bytes.

The attributes of an expression are in the order and form in which the kernel dumps them, so that
a rule read back from the kernel can be compared byte for byte with what was meant.
"""

from typing import assert_never

from kubeproxy.base.inet import Family, pack
from kubeproxy.dataplane.nftables.language import (
    Count,
    Ct,
    Dnat,
    InSet,
    Is,
    IsInterface,
    IsMarked,
    IsNew,
    IsOwnSource,
    IsProtocol,
    IsTranslated,
    Key,
    Mark,
    Masquerade,
    Meta,
    NetworkOrder,
    Numgen,
    Payload,
    Reject,
    Rule,
    Selector,
    SetPriority,
    SourceHash,
    Statement,
    Update,
    Verdict,
    VerdictMap,
)
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64

NFTA_LIST_ELEM = 1
NFTA_DATA_VALUE = 1
NFTA_DATA_VERDICT = 2

_VERDICT_REGISTER = 0
_EQUAL, _NOT_EQUAL = 0, 1
_HTON = 1
_META_MARK, _META_IIFNAME = 3, 6
_CT_STATE, _CT_STATUS = 0, 2
_STATE_NEW, _STATUS_DNAT = 8, 0x20
_ADDRTYPE_LOCAL = 2
_INTERFACE_NAME_SIZE = 16
_NAT_FLAGS = 3  # the addresses and the ports are those of the registers
_FULLY_RANDOM = 0x10
_PORT_UNREACHABLE = {Family.IPV4: 3, Family.IPV6: 4}

NFPROTO = {Family.IPV4: 2, Family.IPV6: 10}


def expression(name: str, *parts: bytes) -> bytes:
    """One expression of a rule."""
    return nested(NFTA_LIST_ELEM, text(1, name), nested(2, *parts))


def register(slot: int) -> int:
    """The kernel's number of the n-th 32-bit register, as it dumps it."""
    return 1 + slot // 4 if slot % 4 == 0 else 8 + slot


def slots(selector: Selector) -> int:
    """How many 32-bit registers a value takes."""
    return (selector.type.size + 3) // 4


def load(selector: Selector, slot: int) -> bytes:
    """Read something of a packet into registers."""
    target = register(slot)
    match selector.load:
        case Payload(base, offset):
            size = u32(4, selector.type.size)
            return expression("payload", u32(1, target), u32(2, base), u32(3, offset), size)
        case Meta(key):
            return expression("meta", u32(2, key), u32(1, target))
        case Ct(key, original):
            direction = attribute(3, b"\0") if original else b""
            return expression("ct", u32(1, target), u32(2, key), direction)
        case Numgen(modulus, random):
            kind = u32(3, 1 if random else 0)
            return expression("numgen", u32(1, target), u32(2, modulus), kind, u32(4, 0))
        case SourceHash(source, modulus):
            # The address is read into registers that the key does not use, further up.
            first = load(source, _SCRATCH)
            hash_ = expression(
                "hash",
                u32(1, register(_SCRATCH)),
                u32(2, target),
                u32(3, source.type.size),
                u32(4, modulus),
                u32(5, 1),
                u32(7, 0),
            )
            return first + hash_
        case NetworkOrder(of):
            length = of.type.size
            swap = (u32(3, _HTON), u32(4, length), u32(5, length))
            return load(of, slot) + expression("byteorder", u32(1, target), u32(2, target), *swap)
        case _:
            assert_never(selector.load)


_SCRATCH = 12


def load_key(key: Key, slot: int = 0) -> bytes:
    """Read a key into consecutive registers."""
    parts = []
    for selector in key:
        parts.append(load(selector, slot))
        slot += slots(selector)
    return b"".join(parts)


def _data(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(NFTA_DATA_VALUE, value))


def _compare(value: bytes, operator: int = _EQUAL) -> bytes:
    return expression("cmp", u32(1, register(0)), u32(2, operator), _data(3, value))


def _bitwise(mask: bytes, xor: bytes) -> bytes:
    here = register(0)
    size = u32(3, len(mask))
    return expression(
        "bitwise", u32(1, here), u32(2, here), size, u32(6, 0), _data(4, mask), _data(5, xor)
    )


def _meta(key: int) -> bytes:
    return expression("meta", u32(2, key), u32(1, register(0)))


def _set_meta(key: int) -> bytes:
    return expression("meta", u32(2, key), u32(3, register(0)))


def _ct_has(key: int, bit: int) -> bytes:
    read = expression("ct", u32(1, register(0)), u32(2, key))
    zero = bytes(4)
    return read + _bitwise(bit.to_bytes(4, "little"), zero) + _compare(zero, _NOT_EQUAL)


def _lookup(set_: str, target: bytes = b"") -> bytes:
    return expression("lookup", text(1, set_), u32(2, register(0)), target, u32(5, 0))


def verdict_data(verdict: Verdict) -> bytes:
    """A verdict, as the data of an immediate expression or of an element."""
    chain = text(2, verdict.chain) if verdict.chain else b""
    return nested(NFTA_DATA_VERDICT, u32(1, verdict.jump.value), chain)


def _verdict(verdict: Verdict) -> bytes:
    return expression("immediate", u32(1, _VERDICT_REGISTER), nested(2, verdict_data(verdict)))


def _is_prefix(statement: Is) -> bytes:
    """Compare the leading bytes; bits that do not fill a byte are masked."""
    selector, prefix = statement.selector, statement.prefix
    operator = _NOT_EQUAL if statement.negate else _EQUAL
    packed = pack(prefix.address)
    if prefix.length % 8 == 0 and prefix.length:
        size = prefix.length // 8
        assert isinstance(selector.load, Payload)  # noqa: S101  # addresses are in headers
        read = expression(
            "payload",
            u32(1, register(0)),
            u32(2, selector.load.base),
            u32(3, selector.load.offset),
            u32(4, size),
        )
        return read + _compare(packed[:size], operator)
    ones = (1 << prefix.length) - 1 << (8 * len(packed) - prefix.length)
    mask = ones.to_bytes(len(packed), "big")
    return load(selector, 0) + _bitwise(mask, bytes(len(packed))) + _compare(packed, operator)


def _is_interface(statement: IsInterface) -> bytes:
    name = statement.name.encode()
    if not statement.prefix:
        name = name.ljust(_INTERFACE_NAME_SIZE, b"\0")
    operator = _NOT_EQUAL if statement.negate else _EQUAL
    return _meta(_META_IIFNAME) + _compare(name, operator)


def _mark(statement: Mark) -> bytes:
    bit = statement.bit.to_bytes(4, "little")
    keep = 0xFFFFFFFF if statement.clear else 0xFFFFFFFF ^ statement.bit
    change = _bitwise(keep.to_bytes(4, "little"), bit)
    return _meta(_META_MARK) + change + _set_meta(_META_MARK)


def _set_priority(statement: SetPriority) -> bytes:
    priority = 2
    if not statement.key:
        clear = expression("immediate", u32(1, register(0)), _data(2, bytes(4)))
        return clear + _set_meta(priority)
    found = _lookup(statement.map, u32(3, register(0)))
    return load_key(statement.key) + found + _set_meta(priority)


def _dnat(statement: Dnat) -> bytes:
    port = register(4 if statement.family is Family.IPV6 else 1)
    address = register(0)
    return (
        load_key(statement.key)
        + _lookup(statement.map, u32(3, address))
        + expression(
            "nat",
            u32(1, 1),
            u32(2, NFPROTO[statement.family]),
            u32(3, address),
            u32(4, address),
            u32(5, port),
            u32(6, port),
            u32(7, _NAT_FLAGS),
        )
    )


def _update(statement: Update) -> bytes:
    after_key = sum(map(slots, statement.key))
    start = (after_key + 3) // 4 * 4 if after_key <= 4 else after_key
    return (
        load_key(statement.key)
        + load_key(statement.data, start)
        + expression(
            "dynset",
            u32(4, register(0)),
            u32(5, register(start)),
            u32(3, 1),
            text(1, statement.map),
            u64(6, statement.seconds * 1000),
            u32(9, 0),
        )
    )


def encode_statement(statement: Statement) -> bytes:  # noqa: C901, PLR0911, PLR0912  # one a kind
    """The expressions of one statement."""
    match statement:
        case Is():
            return _is_prefix(statement)
        case IsProtocol():
            return _meta(16) + _compare(bytes([statement.number]))
        case IsInterface():
            return _is_interface(statement)
        case IsNew():
            return _ct_has(_CT_STATE, _STATE_NEW)
        case IsTranslated():
            return _ct_has(_CT_STATUS, _STATUS_DNAT)
        case IsOwnSource():
            fib = expression("fib", u32(1, register(0)), u32(2, 3), u32(3, 1))
            return fib + _compare(_ADDRTYPE_LOCAL.to_bytes(4, "little"))
        case IsMarked(bit):
            masked = _bitwise(bit.to_bytes(4, "little"), bytes(4))
            return _meta(_META_MARK) + masked + _compare(bytes(4), _NOT_EQUAL)
        case InSet(key, name):
            return load_key(key) + _lookup(name)
        case Mark():
            return _mark(statement)
        case SetPriority():
            return _set_priority(statement)
        case VerdictMap(key, name):
            return load_key(key) + _lookup(name, u32(3, _VERDICT_REGISTER))
        case Dnat():
            return _dnat(statement)
        case Update():
            return _update(statement)
        case Masquerade():
            return expression("masq", u32(1, _FULLY_RANDOM))
        case Reject(family):
            code = attribute(2, bytes([_PORT_UNREACHABLE[family]]))
            return expression("reject", u32(1, 0), code)
        case Count(counter):
            return expression("objref", text(2, counter), u32(1, 1))
        case Verdict():
            return _verdict(statement)
        case _:
            assert_never(statement)


def encode_rule(rule: Rule) -> bytes:
    """The expressions of a rule, one after the other."""
    return b"".join(map(encode_statement, rule))
