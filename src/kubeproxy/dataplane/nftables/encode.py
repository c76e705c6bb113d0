"""Tables, sets, chains and rules -> netlink messages. Sets carry the user data that nft writes."""

import struct

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.expressions import NFPROTO, encode_rule
from kubeproxy.dataplane.nftables.language import (
    Chain,
    Key,
    Meta,
    Numgen,
    Payload,
    Program,
    Rule,
    Selector,
    Set,
)
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32
from kubeproxy.linux.netlink.nfnetlink import (
    NFT_MSG_DELCHAIN,
    NFT_MSG_DELTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWOBJ,
    NFT_MSG_NEWRULE,
    NFT_MSG_NEWSET,
    NFT_MSG_NEWTABLE,
    NLM_F_APPEND,
    NLM_F_CREATE,
    request,
)

VERDICT_TYPE = 0xFFFFFF00
VERDICT_LENGTH = 16

_MAP, _TIMEOUT, _EVAL, _INTERVAL, _CONCAT = 0x8, 0x10, 0x20, 0x4, 0x80
_ACCEPT = 1
_TYPE_BITS = 6
_HOST_ORDER, _BIG_ENDIAN = 1, 2
_COUNTER_OBJECT = 1


def new_table(program: Program) -> bytes:
    """Make the table."""
    payload = text(1, program.table) + attribute(6, _userdata(0, program.comment))
    return request(NFT_MSG_NEWTABLE, NFPROTO[program.family], payload, NLM_F_CREATE)


def delete_table(family: Family, table: str) -> bytes:
    """Remove a table with all that is in it."""
    return request(NFT_MSG_DELTABLE, NFPROTO[family], text(1, table))


def new_chain(program: Program, chain: Chain) -> bytes:
    """Make a chain, without its rules."""
    payload = text(1, program.table) + text(3, chain.name)
    if chain.hook is not None:
        hook = chain.hook
        payload += nested(4, u32(1, hook.number), u32(2, hook.priority))
        payload += u32(5, _ACCEPT) + text(7, hook.type)
    return request(NFT_MSG_NEWCHAIN, NFPROTO[program.family], payload, NLM_F_CREATE)


def delete_chain(program: Program, name: str) -> bytes:
    """Remove a chain with its rules."""
    payload = text(1, program.table) + text(3, name)
    return request(NFT_MSG_DELCHAIN, NFPROTO[program.family], payload)


def new_rule(program: Program, chain: str, rule: Rule) -> bytes:
    """Add a rule at the end of a chain."""
    payload = text(1, program.table) + text(2, chain) + nested(4, encode_rule(rule))
    flags = NLM_F_CREATE | NLM_F_APPEND
    return request(NFT_MSG_NEWRULE, NFPROTO[program.family], payload, flags)


def new_counter(program: Program, name: str) -> bytes:
    """Make a named counter."""
    payload = text(1, program.table) + text(2, name) + u32(3, _COUNTER_OBJECT) + nested(4)
    return request(NFT_MSG_NEWOBJ, NFPROTO[program.family], payload, NLM_F_CREATE)


def new_set(program: Program, set_: Set, number: int) -> bytes:
    """Make a set; the number tells the sets of one batch apart."""
    payload = text(1, program.table) + text(2, set_.name) + _declaration(set_)
    payload += u32(10, number) + attribute(13, set_userdata(set_))
    payload += nested(9, *_description(set_))
    if set_.counter:
        payload += nested(17, *_counter())
    return request(NFT_MSG_NEWSET, NFPROTO[program.family], payload, NLM_F_CREATE)


def _counter() -> tuple[bytes, ...]:
    """The parts of a counter expression, outside of a list."""
    return (text(1, "counter"), nested(2))


def key_size(key: Key) -> int:
    """How many bytes a key takes: fields of a concatenation fill 32-bit words."""
    if len(key) == 1:
        return key[0].type.size
    return sum((selector.type.size + 3) // 4 * 4 for selector in key)


def _type_number(key: Key) -> int:
    number = 0
    for selector in key:
        number = number << _TYPE_BITS | selector.type.number
    return number


def _declaration(set_: Set) -> bytes:
    flags = 0
    if set_.data or set_.verdicts:
        flags |= _MAP
    if set_.dynamic:
        flags |= _TIMEOUT | _EVAL
    if set_.interval:
        flags |= _INTERVAL | (_CONCAT if len(set_.key) > 1 else 0)
    declared = u32(3, flags) if flags else b""
    declared += u32(4, _type_number(set_.key)) + u32(5, key_size(set_.key))
    if set_.verdicts:
        declared += u32(6, VERDICT_TYPE) + u32(7, VERDICT_LENGTH)
    elif set_.data:
        declared += u32(6, _type_number(set_.data)) + u32(7, key_size(set_.data))
    return declared


def _description(set_: Set) -> tuple[bytes, ...]:
    if set_.size:
        return (u32(1, set_.size),)
    if set_.interval and len(set_.key) > 1:
        fields = (nested(1, u32(1, selector.type.size)) for selector in set_.key)
        return (nested(2, *fields),)
    return ()


# User data: what nft keeps beside a set to print it as it was written. One byte of type, one of
# length, numbers in host byte order.

_KEY_BYTE_ORDER, _DATA_BYTE_ORDER, _KEY_TYPEOF, _DATA_TYPEOF = 0, 1, 3, 4
_DATA_INTERVAL, _SET_COMMENT = 6, 7
_EXPRESSION_PAYLOAD, _EXPRESSION_META, _EXPRESSION_CONCAT, _EXPRESSION_NUMGEN = 7, 9, 13, 23


def _userdata(kind: int, comment: str) -> bytes:
    value = comment.encode() + b"\0"
    return bytes([kind, len(value)]) + value


def _item(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


def _number(kind: int, value: int) -> bytes:
    return _item(kind, struct.pack("=I", value))


def set_userdata(set_: Set) -> bytes:
    """What nft would write beside the set."""
    data = _number(_KEY_BYTE_ORDER, _byte_order(set_.key))
    is_map = bool(set_.data or set_.verdicts)
    if is_map:
        data += _number(_DATA_BYTE_ORDER, _byte_order(set_.data))
    if set_.typeof:
        data += _item(_KEY_TYPEOF, _typeof(set_.key))
    elif len(set_.key) > 1:
        data += _item(_KEY_TYPEOF, _number(0, _EXPRESSION_CONCAT) + _item(1, b""))
    if set_.typeof and set_.data:
        data += _item(_DATA_TYPEOF, _typeof(set_.data))
    if is_map:
        data += _number(_DATA_INTERVAL, 0)
    return data + _userdata(_SET_COMMENT, set_.comment)


def _byte_order(key: Key) -> int:
    if len(key) != 1:
        return 0
    return _HOST_ORDER if key[0].type.host_order else _BIG_ENDIAN


def _typeof(key: Key) -> bytes:
    parts = b"".join(_item(index, _typeof_one(selector)) for index, selector in enumerate(key))
    return _number(0, _EXPRESSION_CONCAT) + _item(1, parts)


def _typeof_one(selector: Selector) -> bytes:
    match selector.load:
        case Payload(_, _, header, field):
            number, inner = _EXPRESSION_PAYLOAD, _number(0, header) + _number(1, field)
        case Meta(key):
            number, inner = _EXPRESSION_META, _number(0, key)
        case Numgen(modulus, random):
            kind = _number(0, 1 if random else 0)
            number = _EXPRESSION_NUMGEN
            inner = kind + _number(1, modulus) + _number(2, 0)
        case _:
            raise TypeError(f"no set is declared with {selector.text}")
    return _number(0, number) + _item(1, inner)
