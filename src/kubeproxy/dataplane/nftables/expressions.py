"""Statements -> the kernel's expressions, as bytes.

The attributes of an expression are in the order and form in which the kernel dumps them, so that
a rule read back from the kernel can be compared byte for byte with the wanted one.
"""

from itertools import accumulate
from typing import assert_never

from kubeproxy.base.inet import Family, pack
from kubeproxy.dataplane.nftables import language as lang
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
    data = nested(nft.NFTA_EXPR_DATA, *parts)
    return nested(nft.NFTA_LIST_ELEM, text(nft.NFTA_EXPR_NAME, name), data)


def register(slot: int) -> int:
    """The kernel's number of the n-th 32-bit register, as it dumps it."""
    return 1 + slot // 4 if slot % 4 == 0 else 8 + slot


_FIRST = register(0)  # keys begin here, and values that are compared or changed
_SCRATCH = 12  # from here on are registers that no key uses


def slots(selector: lang.Selector) -> int:
    """How many 32-bit registers a value takes."""
    return (selector.type.size + 3) // 4


def load(selector: lang.Selector, slot: int) -> bytes:
    """Read something of a packet into registers."""
    target = register(slot)
    match selector.load:
        case lang.Payload(base, offset):
            return _payload(target, base, offset, selector.type.size)
        case lang.Meta(key):
            return _meta(key, target)
        case lang.Ct(key, original):
            return _ct(key, target, attribute(nft.NFTA_CT_DIRECTION, b"\0") if original else b"")
        case lang.Numgen(modulus, random):
            return expression(
                "numgen",
                u32(nft.NFTA_NG_DREG, target),
                u32(nft.NFTA_NG_MODULUS, modulus),
                u32(nft.NFTA_NG_TYPE, nft.NFT_NG_RANDOM if random else nft.NFT_NG_INCREMENTAL),
                u32(nft.NFTA_NG_OFFSET, 0),
            )
        case lang.SourceHash(source, modulus):
            return load(source, _SCRATCH) + expression(
                "hash",
                u32(nft.NFTA_HASH_SREG, register(_SCRATCH)),
                u32(nft.NFTA_HASH_DREG, target),
                u32(nft.NFTA_HASH_LEN, source.type.size),
                u32(nft.NFTA_HASH_MODULUS, modulus),
                u32(nft.NFTA_HASH_SEED, _HASH_SEED),
                u32(nft.NFTA_HASH_TYPE, nft.NFT_HASH_JENKINS),
            )
        case lang.NetworkOrder(of):
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


def load_key(key: lang.Key, slot: int = 0) -> bytes:
    """Read a key into consecutive registers."""
    return b"".join(map(load, key, accumulate(map(slots, key), initial=slot)))


def _data(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(nft.NFTA_DATA_VALUE, value))


def _compare(value: bytes, *, negate: bool = False) -> bytes:
    operation = u32(nft.NFTA_CMP_OP, nft.NFT_CMP_NEQ if negate else nft.NFT_CMP_EQ)
    data = _data(nft.NFTA_CMP_DATA, value)
    return expression("cmp", u32(nft.NFTA_CMP_SREG, _FIRST), operation, data)


def _bitwise(mask: bytes, xor: bytes) -> bytes:
    return expression(
        "bitwise",
        u32(nft.NFTA_BITWISE_SREG, _FIRST),
        u32(nft.NFTA_BITWISE_DREG, _FIRST),
        u32(nft.NFTA_BITWISE_LEN, len(mask)),
        u32(nft.NFTA_BITWISE_OP, nft.NFT_BITWISE_MASK_XOR),
        _data(nft.NFTA_BITWISE_MASK, mask),
        _data(nft.NFTA_BITWISE_XOR, xor),
    )


def _has(bit: int) -> bytes:
    """Whether the value that was read has a bit."""
    return _bitwise(bit.to_bytes(4, "little"), bytes(4)) + _compare(bytes(4), negate=True)


def _payload(target: int, base: int, offset: int, size: int) -> bytes:
    return expression(
        "payload",
        u32(nft.NFTA_PAYLOAD_DREG, target),
        u32(nft.NFTA_PAYLOAD_BASE, base),
        u32(nft.NFTA_PAYLOAD_OFFSET, offset),
        u32(nft.NFTA_PAYLOAD_LEN, size),
    )


def _meta(key: int, target: int = _FIRST) -> bytes:
    return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_DREG, target))


def _set_meta(key: int) -> bytes:
    return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_SREG, _FIRST))


def _ct(key: int, target: int = _FIRST, direction: bytes = b"") -> bytes:
    return expression("ct", u32(nft.NFTA_CT_DREG, target), u32(nft.NFTA_CT_KEY, key), direction)


def _lookup(key: lang.Key, set_: str, target: int | None = None) -> bytes:
    """Look a key up in a set; of a map, into the target register."""
    return load_key(key) + expression(
        "lookup",
        text(nft.NFTA_LOOKUP_SET, set_),
        u32(nft.NFTA_LOOKUP_SREG, _FIRST),
        b"" if target is None else u32(nft.NFTA_LOOKUP_DREG, target),
        u32(nft.NFTA_LOOKUP_FLAGS, 0),
    )


def verdict_data(verdict: lang.Verdict) -> bytes:
    """A verdict, as the data of an immediate expression or of an element."""
    chain = text(nft.NFTA_VERDICT_CHAIN, verdict.chain) if verdict.chain else b""
    return nested(nft.NFTA_DATA_VERDICT, u32(nft.NFTA_VERDICT_CODE, verdict.jump.value), chain)


def _immediate(target: int, data: bytes) -> bytes:
    target_register = u32(nft.NFTA_IMMEDIATE_DREG, target)
    return expression("immediate", target_register, nested(nft.NFTA_IMMEDIATE_DATA, data))


def _is_prefix(statement: lang.Is) -> bytes:
    """Compare the leading bytes; bits that do not fill a byte are masked."""
    selector, length = statement.selector, statement.prefix.length
    packed = pack(statement.prefix.address)
    if length % 8 == 0 and length:
        packed = packed[: length // 8]
        assert isinstance(selector.load, lang.Payload)  # noqa: S101  # addresses are in headers
        read = _payload(_FIRST, selector.load.base, selector.load.offset, len(packed))
    else:
        ones = (1 << length) - 1 << (8 * len(packed) - length)
        mask = ones.to_bytes(len(packed), "big")
        read = load(selector, 0) + _bitwise(mask, bytes(len(packed)))
    return read + _compare(packed, negate=statement.negate)


def _dnat(family: Family, key: lang.Key, map_: str) -> bytes:
    port = register(4 if family is Family.IPV6 else 1)
    return _lookup(key, map_, _FIRST) + expression(
        "nat",
        u32(nft.NFTA_NAT_TYPE, nft.NFT_NAT_DNAT),
        u32(nft.NFTA_NAT_FAMILY, NFPROTO[family]),
        u32(nft.NFTA_NAT_REG_ADDR_MIN, _FIRST),
        u32(nft.NFTA_NAT_REG_ADDR_MAX, _FIRST),
        u32(nft.NFTA_NAT_REG_PROTO_MIN, port),
        u32(nft.NFTA_NAT_REG_PROTO_MAX, port),
        u32(nft.NFTA_NAT_FLAGS, nft.NF_NAT_RANGE_MAP_IPS | nft.NF_NAT_RANGE_PROTO_SPECIFIED),
    )


def _update(statement: lang.Update) -> bytes:
    after_key = sum(map(slots, statement.key))
    start = (after_key + 3) // 4 * 4 if after_key <= 4 else after_key
    return (
        load_key(statement.key)
        + load_key(statement.data, start)
        + expression(
            "dynset",
            u32(nft.NFTA_DYNSET_SREG_KEY, _FIRST),
            u32(nft.NFTA_DYNSET_SREG_DATA, register(start)),
            u32(nft.NFTA_DYNSET_OP, nft.NFT_DYNSET_OP_UPDATE),
            text(nft.NFTA_DYNSET_SET_NAME, statement.map),
            u64(nft.NFTA_DYNSET_TIMEOUT, statement.seconds * 1000),
            u32(nft.NFTA_DYNSET_FLAGS, 0),
        )
    )


def _condition(statement: lang.Condition) -> bytes:  # noqa: PLR0911  # one a kind
    match statement:
        case lang.Is():
            return _is_prefix(statement)
        case lang.IsProtocol(_, number):
            return _meta(nft.NFT_META_L4PROTO) + _compare(bytes([number]))
        case lang.IsInterface(name, prefix, negate):
            packed = name.encode() if prefix else name.encode().ljust(_INTERFACE_NAME_SIZE, b"\0")
            return _meta(nft.NFT_META_IIFNAME) + _compare(packed, negate=negate)
        case lang.IsNew():
            return _ct(nft.NFT_CT_STATE) + _has(_STATE_NEW)
        case lang.IsTranslated():
            return _ct(nft.NFT_CT_STATUS) + _has(_STATUS_DNAT)
        case lang.IsOwnSource():
            fib = expression(
                "fib",
                u32(nft.NFTA_FIB_DREG, _FIRST),
                u32(nft.NFTA_FIB_RESULT, nft.NFT_FIB_RESULT_ADDRTYPE),
                u32(nft.NFTA_FIB_FLAGS, nft.NFTA_FIB_F_SADDR),
            )
            return fib + _compare(_ADDRTYPE_LOCAL.to_bytes(4, "little"))
        case lang.IsMarked(bit):
            return _meta(nft.NFT_META_MARK) + _has(bit)
        case lang.InSet(key, name):
            return _lookup(key, name)
        case _:
            assert_never(statement)


def _action(statement: lang.Action) -> bytes:  # noqa: PLR0911  # one a kind
    match statement:
        case lang.Mark(bit, clear):
            keep = 0xFFFFFFFF if clear else 0xFFFFFFFF ^ bit
            change = _bitwise(keep.to_bytes(4, "little"), bit.to_bytes(4, "little"))
            return _meta(nft.NFT_META_MARK) + change + _set_meta(nft.NFT_META_MARK)
        case lang.SetPriority(key, name):
            zero = attribute(nft.NFTA_DATA_VALUE, bytes(4))
            value = _lookup(key, name, _FIRST) if key else _immediate(_FIRST, zero)
            return value + _set_meta(nft.NFT_META_PRIORITY)
        case lang.VerdictMap(key, name):
            return _lookup(key, name, nft.NFT_REG_VERDICT)
        case lang.Dnat(family, key, name):
            return _dnat(family, key, name)
        case lang.Update():
            return _update(statement)
        case lang.Masquerade():
            flags = u32(nft.NFTA_MASQ_FLAGS, nft.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
            return expression("masq", flags)
        case lang.Reject(family):
            kind = u32(nft.NFTA_REJECT_TYPE, nft.NFT_REJECT_ICMP_UNREACH)
            code = attribute(nft.NFTA_REJECT_ICMP_CODE, bytes([_PORT_UNREACHABLE[family]]))
            return expression("reject", kind, code)
        case lang.Count(counter):
            kind = u32(nft.NFTA_OBJREF_IMM_TYPE, nft.NFT_OBJECT_COUNTER)
            return expression("objref", text(nft.NFTA_OBJREF_IMM_NAME, counter), kind)
        case lang.Verdict():
            return _immediate(nft.NFT_REG_VERDICT, verdict_data(statement))
        case _:
            assert_never(statement)


def encode_rule(rule: lang.Rule) -> bytes:
    """The expressions of a rule, one after the other."""
    return b"".join(
        _condition(each) if isinstance(each, lang.Condition) else _action(each) for each in rule
    )
