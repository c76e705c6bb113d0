"""Statements -> the kernel's expressions, as bytes.

The attributes of an expression are in the order and form in which the kernel dumps them, so that
a rule read back from the kernel can be compared byte for byte with the wanted one.
"""

from itertools import accumulate
from typing import assert_never

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6

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
_REGISTERS = 16
_SCRATCH = 12  # from here on are registers that no key uses, nor a slot or two before


def slots(selector: lang.Selector) -> int:
    """How many 32-bit registers a value takes."""
    return (selector.type.size + 3) // 4


def load(selector: lang.Selector, slot: int) -> bytes:  # noqa: PLR0911  # one a kind
    """Read something of a packet into registers."""
    target = register(slot)
    match selector.load:
        case lang.Payload(base, offset):
            return expression(
                "payload",
                u32(nft.NFTA_PAYLOAD_DREG, target),
                u32(nft.NFTA_PAYLOAD_BASE, base),
                u32(nft.NFTA_PAYLOAD_OFFSET, offset),
                u32(nft.NFTA_PAYLOAD_LEN, selector.type.size),
            )
        case lang.Meta(key):
            return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_DREG, target))
        case lang.Ct(key, of):
            direction = attribute(nft.NFTA_CT_DIRECTION, bytes([of.value])) if of else b""
            of_connection = u32(nft.NFTA_CT_DREG, target), u32(nft.NFTA_CT_KEY, key), direction
            return expression("ct", *of_connection)
        case lang.Fib():
            return expression(
                "fib",
                u32(nft.NFTA_FIB_DREG, target),
                u32(nft.NFTA_FIB_RESULT, nft.NFT_FIB_RESULT_ADDRTYPE),
                u32(nft.NFTA_FIB_FLAGS, nft.NFTA_FIB_F_SADDR),
            )
        case lang.Numgen(modulus, random, offset):
            return expression(
                "numgen",
                u32(nft.NFTA_NG_DREG, target),
                u32(nft.NFTA_NG_MODULUS, modulus),
                u32(nft.NFTA_NG_TYPE, nft.NFT_NG_RANDOM if random else nft.NFT_NG_INCREMENTAL),
                u32(nft.NFTA_NG_OFFSET, offset),
            )
        case lang.Hash(key, modulus, offset):
            length = sum(map(slots, key))
            scratch = min(_SCRATCH, _REGISTERS - length)
            return load_key(key, scratch) + expression(
                "hash",
                u32(nft.NFTA_HASH_SREG, register(scratch)),
                u32(nft.NFTA_HASH_DREG, target),
                u32(nft.NFTA_HASH_LEN, 4 * length),
                u32(nft.NFTA_HASH_MODULUS, modulus),
                u32(nft.NFTA_HASH_SEED, lang.HASH_SEED),
                u32(nft.NFTA_HASH_OFFSET, offset) if offset else b"",
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


def _set_meta(key: int) -> bytes:
    return expression("meta", u32(nft.NFTA_META_KEY, key), u32(nft.NFTA_META_SREG, _FIRST))


def _lookup(key: lang.Key, set_: str, target: int | None = None) -> bytes:
    """Look a key up in a set; of a map, into the target register."""
    return load_key(key) + expression(
        "lookup",
        text(nft.NFTA_LOOKUP_SET, set_),
        u32(nft.NFTA_LOOKUP_SREG, _FIRST),
        b"" if target is None else u32(nft.NFTA_LOOKUP_DREG, target),
        u32(nft.NFTA_LOOKUP_FLAGS, 0),
    )


def _number(key: lang.Key, name: str) -> bytes:
    """Read a number: that of a map for the key, the key itself, or without one 0."""
    if name:
        return _lookup(key, name, _FIRST)
    return load_key(key) or _immediate(_FIRST, attribute(nft.NFTA_DATA_VALUE, bytes(4)))


def verdict_data(verdict: lang.RuleVerdict) -> bytes:
    """A verdict, as the data of an immediate expression or of an element."""
    chain = text(nft.NFTA_VERDICT_CHAIN, verdict.chain) if verdict.chain else b""
    return nested(nft.NFTA_DATA_VERDICT, u32(nft.NFTA_VERDICT_CODE, verdict.jump.value), chain)


def _immediate(target: int, data: bytes) -> bytes:
    target_register = u32(nft.NFTA_IMMEDIATE_DREG, target)
    return expression("immediate", target_register, nested(nft.NFTA_IMMEDIATE_DATA, data))


def _dnat(family: Family) -> bytes:
    """Send the connection to the address and port that were looked up."""
    port = register(family.bits // 32)
    return expression(
        "nat",
        u32(nft.NFTA_NAT_TYPE, nft.NFT_NAT_DNAT),
        u32(nft.NFTA_NAT_FAMILY, NFPROTO[family]),
        u32(nft.NFTA_NAT_REG_ADDR_MIN, _FIRST),
        u32(nft.NFTA_NAT_REG_ADDR_MAX, _FIRST),
        u32(nft.NFTA_NAT_REG_PROTO_MIN, port),
        u32(nft.NFTA_NAT_REG_PROTO_MAX, port),
        u32(nft.NFTA_NAT_FLAGS, nft.NF_NAT_RANGE_MAP_IPS | nft.NF_NAT_RANGE_PROTO_SPECIFIED),
    )


_UNITS = {"second": 1, "minute": 60}


def _limit(limit: lang.Limit) -> tuple[bytes, bytes]:
    """The name and the data of a limit."""
    return text(nft.NFTA_EXPR_NAME, "limit"), nested(
        nft.NFTA_EXPR_DATA,
        u64(nft.NFTA_LIMIT_RATE, limit.rate),
        u64(nft.NFTA_LIMIT_UNIT, _UNITS[limit.unit]),
        u32(nft.NFTA_LIMIT_BURST, limit.burst),
        u32(nft.NFTA_LIMIT_TYPE, nft.NFT_LIMIT_PKTS),
        u32(nft.NFTA_LIMIT_FLAGS, nft.NFT_LIMIT_F_INV if limit.over else 0),
    )


def _change(statement: lang.ChangeElement) -> bytes:
    after_key = sum(map(slots, statement.key))
    start = (after_key + 3) // 4 * 4 if after_key <= 4 else after_key
    data = u32(nft.NFTA_DYNSET_SREG_DATA, register(start)) if statement.data else b""
    limit = statement.limit
    return (
        load_key(statement.key)
        + load_key(statement.data, start)
        + expression(
            "dynset",
            u32(nft.NFTA_DYNSET_SREG_KEY, _FIRST),
            data,
            u32(nft.NFTA_DYNSET_OP, statement.change.value),
            text(nft.NFTA_DYNSET_SET_NAME, statement.set),
            u64(nft.NFTA_DYNSET_TIMEOUT, statement.milliseconds),
            nested(nft.NFTA_DYNSET_EXPR, *_limit(limit)) if limit else b"",
            u32(nft.NFTA_DYNSET_FLAGS, 0),
        )
    )


def _use(kind: int, name: str) -> bytes:
    """Have a named object see the packet."""
    of_kind = u32(nft.NFTA_OBJREF_IMM_TYPE, kind)
    return expression("objref", text(nft.NFTA_OBJREF_IMM_NAME, name), of_kind)


def _encode(statement: lang.Statement) -> bytes:  # noqa: C901, PLR0911, PLR0912  # one a kind
    match statement:
        case lang.Match(_, selector, value, mask, negate):
            masked = _bitwise(mask, bytes(len(mask))) if mask else b""
            operation = nft.NFT_CMP_NEQ if negate else nft.NFT_CMP_EQ
            return (
                load(selector, 0)
                + masked
                + expression(
                    "cmp",
                    u32(nft.NFTA_CMP_SREG, _FIRST),
                    u32(nft.NFTA_CMP_OP, operation),
                    _data(nft.NFTA_CMP_DATA, value),
                )
            )
        case lang.InSet(key, name):
            return _lookup(key, name)
        case lang.Mark(bit, clear):
            keep = 0xFFFFFFFF if clear else 0xFFFFFFFF ^ bit
            change = _bitwise(keep.to_bytes(4, "little"), bit.to_bytes(4, "little"))
            return load(lang.MARK, 0) + change + _set_meta(nft.NFT_META_MARK)
        case lang.SetPriority(key, name):
            return _number(key, name) + _set_meta(nft.NFT_META_PRIORITY)
        case lang.VerdictMap(key, name):
            return _lookup(key, name, nft.NFT_REG_VERDICT)
        case lang.Dnat(family, key, name):
            return _lookup(key, name, _FIRST) + _dnat(family)
        case lang.ChangeElement():
            return _change(statement)
        case lang.Masquerade():
            flags = u32(nft.NFTA_MASQ_FLAGS, nft.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
            return expression("masq", flags)
        case lang.Reject(family):
            kind = u32(nft.NFTA_REJECT_TYPE, nft.NFT_REJECT_ICMP_UNREACH)
            code = attribute(nft.NFTA_REJECT_ICMP_CODE, bytes([_PORT_UNREACHABLE[family]]))
            return expression("reject", kind, code)
        case lang.Reset():
            return expression("reject", u32(nft.NFTA_REJECT_TYPE, nft.NFT_REJECT_TCP_RST))
        case lang.UseCounter(name):
            return _use(nft.NFT_OBJECT_COUNTER, name)
        case lang.UseTimeout(name):
            return _use(nft.NFT_OBJECT_CT_TIMEOUT, name)
        case lang.Limit():
            return nested(nft.NFTA_LIST_ELEM, *_limit(statement))
        case lang.Log(group):
            return expression("log", attribute(nft.NFTA_LOG_GROUP, group.to_bytes(2, "big")))
        case lang.RuleVerdict():
            return _immediate(nft.NFT_REG_VERDICT, verdict_data(statement))
        case _:
            assert_never(statement)


def encode_rule(rule: lang.Rule) -> bytes:
    """The expressions of a rule, one after the other."""
    return b"".join(map(_encode, rule))
