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
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6

_STATE_NEW, _STATUS_DNAT = 8, 0x20
_ADDRTYPE_LOCAL = 2
_INTERFACE_NAME_SIZE = 16
_HASH_SEED = 1
_PORT_UNREACHABLE = {Family.IPV4: 3, Family.IPV6: 4}

NFPROTO = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}


def expression(name: str, *parts: bytes) -> bytes:
    """One expression of a rule."""
    return nested(
        nft.NFTA_LIST_ELEM, text(nft.NFTA_EXPR_NAME, name), nested(nft.NFTA_EXPR_DATA, *parts)
    )


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
            return _payload(target, base, offset, selector.type.size)
        case Meta(key):
            return _meta(key, target)
        case Ct(key, original):
            direction = attribute(nft.NFTA_CT_DIRECTION, b"\0") if original else b""
            return _ct(key, target, direction)
        case Numgen(modulus, random):
            return expression(
                "numgen",
                u32(nft.NFTA_NG_DREG, target),
                u32(nft.NFTA_NG_MODULUS, modulus),
                u32(nft.NFTA_NG_TYPE, nft.NFT_NG_RANDOM if random else nft.NFT_NG_INCREMENTAL),
                u32(nft.NFTA_NG_OFFSET, 0),
            )
        case SourceHash(source, modulus):
            # The address is read into registers that the key does not use, further up.
            first = load(source, _SCRATCH)
            hash_ = expression(
                "hash",
                u32(nft.NFTA_HASH_SREG, register(_SCRATCH)),
                u32(nft.NFTA_HASH_DREG, target),
                u32(nft.NFTA_HASH_LEN, source.type.size),
                u32(nft.NFTA_HASH_MODULUS, modulus),
                u32(nft.NFTA_HASH_SEED, _HASH_SEED),
                u32(nft.NFTA_HASH_TYPE, nft.NFT_HASH_JENKINS),
            )
            return first + hash_
        case NetworkOrder(of):
            return load(of, slot) + expression(
                "byteorder",
                u32(nft.NFTA_BYTEORDER_SREG, target),
                u32(nft.NFTA_BYTEORDER_DREG, target),
                u32(nft.NFTA_BYTEORDER_OP, nft.NFT_BYTEORDER_HTON),
                u32(nft.NFTA_BYTEORDER_LEN, of.type.size),
                u32(nft.NFTA_BYTEORDER_SIZE, of.type.size),
            )
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
    return nested(kind, attribute(nft.NFTA_DATA_VALUE, value))


def _compare(value: bytes, *, negate: bool = False) -> bytes:
    return expression(
        "cmp",
        u32(nft.NFTA_CMP_SREG, register(0)),
        u32(nft.NFTA_CMP_OP, nft.NFT_CMP_NEQ if negate else nft.NFT_CMP_EQ),
        _data(nft.NFTA_CMP_DATA, value),
    )


def _bitwise(mask: bytes, xor: bytes) -> bytes:
    return expression(
        "bitwise",
        u32(nft.NFTA_BITWISE_SREG, register(0)),
        u32(nft.NFTA_BITWISE_DREG, register(0)),
        u32(nft.NFTA_BITWISE_LEN, len(mask)),
        u32(nft.NFTA_BITWISE_OP, nft.NFT_BITWISE_MASK_XOR),
        _data(nft.NFTA_BITWISE_MASK, mask),
        _data(nft.NFTA_BITWISE_XOR, xor),
    )


def _payload(target: int, base: int, offset: int, size: int) -> bytes:
    return expression(
        "payload",
        u32(nft.NFTA_PAYLOAD_DREG, target),
        u32(nft.NFTA_PAYLOAD_BASE, base),
        u32(nft.NFTA_PAYLOAD_OFFSET, offset),
        u32(nft.NFTA_PAYLOAD_LEN, size),
    )


def _meta(key: int, target: int) -> bytes:
    return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_DREG, target))


def _set_meta(key: int) -> bytes:
    return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_SREG, register(0)))


def _ct(key: int, target: int, direction: bytes = b"") -> bytes:
    return expression("ct", u32(nft.NFTA_CT_DREG, target), u32(nft.NFTA_CT_KEY, key), direction)


def _ct_has(key: int, bit: int) -> bytes:
    zero = bytes(4)
    masked = _bitwise(bit.to_bytes(4, "little"), zero)
    return _ct(key, register(0)) + masked + _compare(zero, negate=True)


def _lookup(set_: str, target: int | None = None) -> bytes:
    """Look the key up in a set; of a map, into the target register."""
    return expression(
        "lookup",
        text(nft.NFTA_LOOKUP_SET, set_),
        u32(nft.NFTA_LOOKUP_SREG, register(0)),
        b"" if target is None else u32(nft.NFTA_LOOKUP_DREG, target),
        u32(nft.NFTA_LOOKUP_FLAGS, 0),
    )


def verdict_data(verdict: Verdict) -> bytes:
    """A verdict, as the data of an immediate expression or of an element."""
    chain = text(nft.NFTA_VERDICT_CHAIN, verdict.chain) if verdict.chain else b""
    return nested(nft.NFTA_DATA_VERDICT, u32(nft.NFTA_VERDICT_CODE, verdict.jump.value), chain)


def _immediate(target: int, data: bytes) -> bytes:
    target_register = u32(nft.NFTA_IMMEDIATE_DREG, target)
    return expression("immediate", target_register, nested(nft.NFTA_IMMEDIATE_DATA, data))


def _is_prefix(statement: Is) -> bytes:
    """Compare the leading bytes; bits that do not fill a byte are masked."""
    selector, prefix = statement.selector, statement.prefix
    packed = pack(prefix.address)
    if prefix.length % 8 == 0 and prefix.length:
        size = prefix.length // 8
        assert isinstance(selector.load, Payload)  # noqa: S101  # addresses are in headers
        read = _payload(register(0), selector.load.base, selector.load.offset, size)
        return read + _compare(packed[:size], negate=statement.negate)
    ones = (1 << prefix.length) - 1 << (8 * len(packed) - prefix.length)
    mask = ones.to_bytes(len(packed), "big")
    masked = load(selector, 0) + _bitwise(mask, bytes(len(packed)))
    return masked + _compare(packed, negate=statement.negate)


def _is_interface(statement: IsInterface) -> bytes:
    name = statement.name.encode()
    if not statement.prefix:
        name = name.ljust(_INTERFACE_NAME_SIZE, b"\0")
    return _meta(nft.NFT_META_IIFNAME, register(0)) + _compare(name, negate=statement.negate)


def _mark(statement: Mark) -> bytes:
    bit = statement.bit.to_bytes(4, "little")
    keep = 0xFFFFFFFF if statement.clear else 0xFFFFFFFF ^ statement.bit
    change = _bitwise(keep.to_bytes(4, "little"), bit)
    return _meta(nft.NFT_META_MARK, register(0)) + change + _set_meta(nft.NFT_META_MARK)


def _set_priority(statement: SetPriority) -> bytes:
    if statement.key:
        value = load_key(statement.key) + _lookup(statement.map, register(0))
    else:
        value = _immediate(register(0), attribute(nft.NFTA_DATA_VALUE, bytes(4)))
    return value + _set_meta(nft.NFT_META_PRIORITY)


def _dnat(statement: Dnat) -> bytes:
    port = register(4 if statement.family is Family.IPV6 else 1)
    address = register(0)
    return (
        load_key(statement.key)
        + _lookup(statement.map, address)
        + expression(
            "nat",
            u32(nft.NFTA_NAT_TYPE, nft.NFT_NAT_DNAT),
            u32(nft.NFTA_NAT_FAMILY, NFPROTO[statement.family]),
            u32(nft.NFTA_NAT_REG_ADDR_MIN, address),
            u32(nft.NFTA_NAT_REG_ADDR_MAX, address),
            u32(nft.NFTA_NAT_REG_PROTO_MIN, port),
            u32(nft.NFTA_NAT_REG_PROTO_MAX, port),
            u32(nft.NFTA_NAT_FLAGS, nft.NF_NAT_RANGE_MAP_IPS | nft.NF_NAT_RANGE_PROTO_SPECIFIED),
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
            u32(nft.NFTA_DYNSET_SREG_KEY, register(0)),
            u32(nft.NFTA_DYNSET_SREG_DATA, register(start)),
            u32(nft.NFTA_DYNSET_OP, nft.NFT_DYNSET_OP_UPDATE),
            text(nft.NFTA_DYNSET_SET_NAME, statement.map),
            u64(nft.NFTA_DYNSET_TIMEOUT, statement.seconds * 1000),
            u32(nft.NFTA_DYNSET_FLAGS, 0),
        )
    )


def encode_statement(statement: Statement) -> bytes:  # noqa: C901, PLR0911, PLR0912  # one a kind
    """The expressions of one statement."""
    match statement:
        case Is():
            return _is_prefix(statement)
        case IsProtocol():
            protocol = _meta(nft.NFT_META_L4PROTO, register(0))
            return protocol + _compare(bytes([statement.number]))
        case IsInterface():
            return _is_interface(statement)
        case IsNew():
            return _ct_has(nft.NFT_CT_STATE, _STATE_NEW)
        case IsTranslated():
            return _ct_has(nft.NFT_CT_STATUS, _STATUS_DNAT)
        case IsOwnSource():
            fib = expression(
                "fib",
                u32(nft.NFTA_FIB_DREG, register(0)),
                u32(nft.NFTA_FIB_RESULT, nft.NFT_FIB_RESULT_ADDRTYPE),
                u32(nft.NFTA_FIB_FLAGS, nft.NFTA_FIB_F_SADDR),
            )
            return fib + _compare(_ADDRTYPE_LOCAL.to_bytes(4, "little"))
        case IsMarked(bit):
            masked = _bitwise(bit.to_bytes(4, "little"), bytes(4))
            mark = _meta(nft.NFT_META_MARK, register(0))
            return mark + masked + _compare(bytes(4), negate=True)
        case InSet(key, name):
            return load_key(key) + _lookup(name)
        case Mark():
            return _mark(statement)
        case SetPriority():
            return _set_priority(statement)
        case VerdictMap(key, name):
            return load_key(key) + _lookup(name, nft.NFT_REG_VERDICT)
        case Dnat():
            return _dnat(statement)
        case Update():
            return _update(statement)
        case Masquerade():
            return expression(
                "masq", u32(nft.NFTA_MASQ_FLAGS, nft.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
            )
        case Reject(family):
            kind = u32(nft.NFTA_REJECT_TYPE, nft.NFT_REJECT_ICMP_UNREACH)
            code = attribute(nft.NFTA_REJECT_ICMP_CODE, bytes([_PORT_UNREACHABLE[family]]))
            return expression("reject", kind, code)
        case Count(counter):
            kind = u32(nft.NFTA_OBJREF_IMM_TYPE, nft.NFT_OBJECT_COUNTER)
            return expression("objref", text(nft.NFTA_OBJREF_IMM_NAME, counter), kind)
        case Verdict():
            return _immediate(nft.NFT_REG_VERDICT, verdict_data(statement))
        case _:
            assert_never(statement)


def encode_rule(rule: Rule) -> bytes:
    """The expressions of a rule, one after the other."""
    return b"".join(map(encode_statement, rule))
