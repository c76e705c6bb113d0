"""Tables, sets, chains and rules -> netlink messages. Sets carry the user data that nft writes."""

import struct

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.dataplane.nftables.expressions import NFPROTO, encode_rule, slots
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.message import NLM_F_APPEND, NLM_F_CREATE
from kubeproxy.linux.netlink.nfnetlink import request

VERDICT_TYPE = 0xFFFFFF00
VERDICT_LENGTH = 16

_TYPE_BITS = 6
_HOST_ORDER, _BIG_ENDIAN = 1, 2


def new_table(program: lang.Program) -> bytes:
    """Make the table."""
    comment = _item(_TABLE_COMMENT, program.comment.encode() + b"\0")
    payload = text(nft.NFTA_TABLE_NAME, program.table)
    payload += attribute(nft.NFTA_TABLE_USERDATA, comment)
    return request(nft.NFT_MSG_NEWTABLE, NFPROTO[program.family], payload, NLM_F_CREATE)


def delete_table(family: Family, table: str) -> bytes:
    """Remove a table with all that is in it."""
    return request(nft.NFT_MSG_DELTABLE, NFPROTO[family], text(nft.NFTA_TABLE_NAME, table))


def new_chain(program: lang.Program, chain: lang.Chain) -> bytes:
    """Make a chain, without its rules."""
    payload = text(nft.NFTA_CHAIN_TABLE, program.table) + text(nft.NFTA_CHAIN_NAME, chain.name)
    if (hook := chain.hook) is not None:
        payload += nested(
            nft.NFTA_CHAIN_HOOK,
            u32(nft.NFTA_HOOK_HOOKNUM, hook.number),
            u32(nft.NFTA_HOOK_PRIORITY, hook.priority),
        )
        payload += u32(nft.NFTA_CHAIN_POLICY, nft.NF_ACCEPT)
        payload += text(nft.NFTA_CHAIN_TYPE, hook.type)
    return request(nft.NFT_MSG_NEWCHAIN, NFPROTO[program.family], payload, NLM_F_CREATE)


def flush_chain(program: lang.Program, name: str) -> bytes:
    """Remove the rules of a chain."""
    payload = text(nft.NFTA_RULE_TABLE, program.table) + text(nft.NFTA_RULE_CHAIN, name)
    return request(nft.NFT_MSG_DELRULE, NFPROTO[program.family], payload)


def delete_chain(program: lang.Program, name: str) -> bytes:
    """Remove a chain with its rules."""
    payload = text(nft.NFTA_CHAIN_TABLE, program.table) + text(nft.NFTA_CHAIN_NAME, name)
    return request(nft.NFT_MSG_DELCHAIN, NFPROTO[program.family], payload)


def new_rule(program: lang.Program, chain: str, rule: lang.Rule) -> bytes:
    """Add a rule at the end of a chain."""
    payload = text(nft.NFTA_RULE_TABLE, program.table) + text(nft.NFTA_RULE_CHAIN, chain)
    payload += nested(nft.NFTA_RULE_EXPRESSIONS, encode_rule(rule))
    flags = NLM_F_CREATE | NLM_F_APPEND
    return request(nft.NFT_MSG_NEWRULE, NFPROTO[program.family], payload, flags)


def new_counter(program: lang.Program, name: str) -> bytes:
    """Make a named counter."""
    payload = text(nft.NFTA_OBJ_TABLE, program.table) + text(nft.NFTA_OBJ_NAME, name)
    payload += u32(nft.NFTA_OBJ_TYPE, nft.NFT_OBJECT_COUNTER) + nested(nft.NFTA_OBJ_DATA)
    return request(nft.NFT_MSG_NEWOBJ, NFPROTO[program.family], payload, NLM_F_CREATE)


def new_timeout(program: lang.Program, timeout: lang.SynTimeout) -> bytes:
    """Make named time-outs of connections; those that are not said are the kernel's of now."""
    payload = text(nft.NFTA_OBJ_TABLE, program.table) + text(nft.NFTA_OBJ_NAME, timeout.name)
    payload += u32(nft.NFTA_OBJ_TYPE, nft.NFT_OBJECT_CT_TIMEOUT)
    payload += nested(
        nft.NFTA_OBJ_DATA,
        attribute(nft.NFTA_CT_TIMEOUT_L3PROTO, NFPROTO[program.family].to_bytes(2, "big")),
        attribute(nft.NFTA_CT_TIMEOUT_L4PROTO, bytes([Protocol.TCP])),
        nested(nft.NFTA_CT_TIMEOUT_DATA, u32(nft.CTA_TIMEOUT_TCP_SYN_SENT, timeout.seconds)),
    )
    return request(nft.NFT_MSG_NEWOBJ, NFPROTO[program.family], payload, NLM_F_CREATE)


def delete_timeout(program: lang.Program, name: str) -> bytes:
    """Remove named time-outs."""
    return _delete_object(program, name, nft.NFT_OBJECT_CT_TIMEOUT)


def delete_counter(program: lang.Program, name: str) -> bytes:
    """Remove a named counter."""
    return _delete_object(program, name, nft.NFT_OBJECT_COUNTER)


def _delete_object(program: lang.Program, name: str, kind: int) -> bytes:
    payload = text(nft.NFTA_OBJ_TABLE, program.table) + text(nft.NFTA_OBJ_NAME, name)
    payload += u32(nft.NFTA_OBJ_TYPE, kind)
    return request(nft.NFT_MSG_DELOBJ, NFPROTO[program.family], payload)


def delete_set(program: lang.Program, name: str) -> bytes:
    """Remove a set with its elements."""
    payload = text(nft.NFTA_SET_TABLE, program.table) + text(nft.NFTA_SET_NAME, name)
    return request(nft.NFT_MSG_DELSET, NFPROTO[program.family], payload)


def new_set(program: lang.Program, set_: lang.Set, number: int) -> bytes:
    """Make a set; the number identifies it within a batch."""
    payload = text(nft.NFTA_SET_TABLE, program.table) + text(nft.NFTA_SET_NAME, set_.name)
    payload += _declaration(set_) + u32(nft.NFTA_SET_ID, number)
    payload += attribute(nft.NFTA_SET_USERDATA, set_userdata(set_))
    payload += nested(nft.NFTA_SET_DESC, _description(set_))
    if set_.counter:
        counter = text(nft.NFTA_EXPR_NAME, "counter")
        payload += nested(nft.NFTA_SET_EXPR, counter, nested(nft.NFTA_EXPR_DATA))
    return request(nft.NFT_MSG_NEWSET, NFPROTO[program.family], payload, NLM_F_CREATE)


def key_size(key: lang.Key) -> int:
    """How many bytes a key takes: fields of a concatenation fill 32-bit words."""
    return key[0].type.size if len(key) == 1 else 4 * sum(map(slots, key))


def _type_number(key: lang.Key) -> int:
    number = 0
    for selector in key:
        number = number << _TYPE_BITS | selector.type.number
    return number


def _declaration(set_: lang.Set) -> bytes:
    flags = nft.NFT_SET_MAP if set_.is_map else 0
    if set_.dynamic:
        flags |= nft.NFT_SET_TIMEOUT | nft.NFT_SET_EVAL
    if set_.interval:
        flags |= nft.NFT_SET_INTERVAL | (nft.NFT_SET_CONCAT if len(set_.key) > 1 else 0)
    declared = u32(nft.NFTA_SET_FLAGS, flags) if flags else b""
    declared += u32(nft.NFTA_SET_KEY_TYPE, _type_number(set_.key))
    declared += u32(nft.NFTA_SET_KEY_LEN, key_size(set_.key))
    if set_.is_map:
        type_ = VERDICT_TYPE if set_.verdicts else _type_number(set_.data)
        size = VERDICT_LENGTH if set_.verdicts else key_size(set_.data)
        declared += u32(nft.NFTA_SET_DATA_TYPE, type_) + u32(nft.NFTA_SET_DATA_LEN, size)
    if set_.seconds:
        declared += u64(nft.NFTA_SET_TIMEOUT, 1000 * set_.seconds)
    return declared


def _description(set_: lang.Set) -> bytes:
    if set_.size:
        return u32(nft.NFTA_SET_DESC_SIZE, set_.size)
    if set_.interval and len(set_.key) > 1:
        sizes = (u32(nft.NFTA_SET_FIELD_LEN, selector.type.size) for selector in set_.key)
        fields = (nested(nft.NFTA_LIST_ELEM, size) for size in sizes)
        return nested(nft.NFTA_SET_DESC_CONCAT, *fields)
    return b""


# User data: what nft keeps beside a set to print it as it was written. One byte of type, one of
# length, numbers in host byte order.

_TABLE_COMMENT = 0
_KEY_BYTE_ORDER, _DATA_BYTE_ORDER, _KEY_TYPEOF, _DATA_TYPEOF = 0, 1, 3, 4
_DATA_INTERVAL, _SET_COMMENT = 6, 7
_TYPEOF_EXPRESSION, _TYPEOF_DATA = 0, 1
_PAYLOAD_HEADER, _PAYLOAD_FIELD = 0, 1
_META_KEY = 0
_NUMGEN_TYPE, _NUMGEN_MODULUS, _NUMGEN_OFFSET = 0, 1, 2
_EXPRESSION_PAYLOAD, _EXPRESSION_META, _EXPRESSION_CONCAT, _EXPRESSION_NUMGEN = 7, 9, 13, 23


def _item(kind: int, value: bytes | int) -> bytes:
    packed = struct.pack("=I", value) if isinstance(value, int) else value
    return bytes([kind, len(packed)]) + packed


def set_userdata(set_: lang.Set) -> bytes:
    """What nft would write beside the set."""
    data = _item(_KEY_BYTE_ORDER, _byte_order(set_.key))
    if set_.is_map:
        data += _item(_DATA_BYTE_ORDER, _byte_order(set_.data))
    if set_.typeof:
        data += _item(_KEY_TYPEOF, _typeof(set_.key))
    elif len(set_.key) > 1:
        data += _item(_KEY_TYPEOF, _expression(_EXPRESSION_CONCAT, b""))
    if set_.typeof and set_.data:
        data += _item(_DATA_TYPEOF, _typeof(set_.data))
    elif len(set_.data) > 1:
        data += _item(_DATA_TYPEOF, _expression(_EXPRESSION_CONCAT, b""))
    if set_.is_map:
        data += _item(_DATA_INTERVAL, 0)
    return data + _item(_SET_COMMENT, set_.comment.encode() + b"\0")


def _byte_order(key: lang.Key) -> int:
    if len(key) != 1 or key[0].type.size == 1:
        return 0
    return _HOST_ORDER if key[0].type.host_order else _BIG_ENDIAN


def _typeof(key: lang.Key) -> bytes:
    if len(key) == 1:
        return _typeof_one(key[0])
    parts = b"".join(_item(index, _typeof_one(selector)) for index, selector in enumerate(key))
    return _expression(_EXPRESSION_CONCAT, parts)


def _expression(number: int, data: bytes) -> bytes:
    return _item(_TYPEOF_EXPRESSION, number) + _item(_TYPEOF_DATA, data)


def _typeof_one(selector: lang.Selector) -> bytes:
    match selector.load:
        case lang.Payload(_, _, header, field):
            data = _item(_PAYLOAD_HEADER, header) + _item(_PAYLOAD_FIELD, field)
            return _expression(_EXPRESSION_PAYLOAD, data)
        case lang.Meta(key):
            return _expression(_EXPRESSION_META, _item(_META_KEY, key))
        case lang.Numgen(modulus, random, offset):
            data = _item(_NUMGEN_TYPE, nft.NFT_NG_RANDOM if random else nft.NFT_NG_INCREMENTAL)
            data += _item(_NUMGEN_MODULUS, modulus) + _item(_NUMGEN_OFFSET, offset)
            return _expression(_EXPRESSION_NUMGEN, data)
        case _:
            raise TypeError(f"no set is declared with {selector.text}")
