"""Our messages as text: rules and elements as `nft --debug=netlink` prints them.

A person can review these lines, and compare them with what nft itself sends for the same rule.
"""

from collections.abc import Callable

from fakes.ruleset import (
    DATA,
    FLAGS,
    KEY,
    KEY_END,
    VALUE,
    VERDICT,
    number_of,
    parts,
    text_of,
)
from kubeproxy.linux.netlink.message import attributes, decode
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_DELCHAIN,
    NFT_MSG_DELRULE,
    NFT_MSG_DELSETELEM,
    NFT_MSG_DELTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWOBJ,
    NFT_MSG_NEWRULE,
    NFT_MSG_NEWSET,
    NFT_MSG_NEWSETELEM,
    NFT_MSG_NEWTABLE,
)

BASES = {1: "network", 2: "transport"}
META = {2: "priority", 3: "mark", 6: "iifname", 16: "l4proto"}
CT = {0: "state", 2: "status", 12: "proto_dst", 20: "dst_ip", 22: "dst_ip6"}
CODES = {0: "drop", 1: "accept", -3: "jump", -4: "goto", -5: "return"}
FAMILIES = {2: "ip", 10: "ip6"}
VERBS = {
    NFT_MSG_NEWTABLE: "add table",
    NFT_MSG_DELTABLE: "delete table",
    NFT_MSG_NEWCHAIN: "add chain",
    NFT_MSG_DELCHAIN: "delete chain",
    NFT_MSG_NEWSET: "add set",
    NFT_MSG_NEWOBJ: "add counter",
    NFT_MSG_DELRULE: "flush chain",
}

Fields = dict[int, bytes]


def words(data: bytes) -> str:
    """Bytes as the 32-bit words of a little-endian register."""
    cut = range(0, len(data), 4)
    return " ".join(f"0x{int.from_bytes(data[at : at + 4], 'little'):08x}" for at in cut)


def _number(fields: Fields, kind: int) -> int:
    return number_of(fields[kind])


def _value(data: bytes) -> str:
    """Data: a value, or a verdict."""
    found = attributes(data)
    if VALUE in found:
        return words(found[VALUE])
    verdict = attributes(found[VERDICT])
    code = CODES[int.from_bytes(verdict[1], "big", signed=True)]
    return f"{code} -> {text_of(verdict[2])}" if 2 in verdict else code


def _payload(of: Fields) -> str:
    where = f"{BASES[_number(of, 2)]} header + {_number(of, 3)}"
    return f"payload load {_number(of, 4)}b @ {where} => reg {_number(of, 1)}"


def _meta(of: Fields) -> str:
    key = META[_number(of, 2)]
    if 1 in of:
        return f"meta load {key} => reg {_number(of, 1)}"
    return f"meta set {key} with reg {_number(of, 3)}"


def _ct(of: Fields) -> str:
    direction = " , dir original" if 3 in of else ""
    return f"ct load {CT[_number(of, 2)]} => reg {_number(of, 1)}{direction}"


def _fib(of: Fields) -> str:
    assert (_number(of, 2), _number(of, 3)) == (3, 1)  # the type, of the source
    return f"fib saddr type => reg {_number(of, 1)}"


def _numgen(of: Fields) -> str:
    kind = ("inc", "random")[_number(of, 3)]
    return f"numgen reg {_number(of, 1)} = {kind} mod {_number(of, 2)} offset {_number(of, 4)}"


def _hash(of: Fields) -> str:
    source = f"reg {_number(of, 1)}, {_number(of, 3)}, {_number(of, 5):#x}"
    modulus = f"{_number(of, 4)}" + (f" offset {_number(of, 6)}" if 6 in of else "")
    return f"hash reg {_number(of, 2)} = jhash({source}) % mod {modulus}"


def _byteorder(of: Fields) -> str:
    assert _number(of, 3) == 1  # to network order
    size = f"{_number(of, 5)}, {_number(of, 4)}"
    return f"byteorder reg {_number(of, 2)} = hton(reg {_number(of, 1)}, {size})"


def _lookup(of: Fields) -> str:
    target = f" dreg {_number(of, 3)}" if 3 in of else ""
    return f"lookup reg {_number(of, 2)} set {text_of(of[1])}{target}"


def _cmp(of: Fields) -> str:
    return f"cmp {('eq', 'neq')[_number(of, 2)]} reg {_number(of, 1)} {_value(of[3])}"


def _bitwise(of: Fields) -> str:
    change = f"( reg {_number(of, 1)} & {_value(of[4])} ) ^ {_value(of[5])}"
    return f"bitwise reg {_number(of, 2)} = {change}"


def _immediate(of: Fields) -> str:
    return f"immediate reg {_number(of, 1)} {_value(of[2])}"


def _nat(of: Fields) -> str:
    assert (of[3], of[5]) == (of[4], of[6])  # the first and the last are one
    registers = f"addr_min reg {_number(of, 3)} proto_min reg {_number(of, 5)}"
    return f"nat {('snat', 'dnat')[_number(of, 1)]} {FAMILIES[_number(of, 2)]} {registers}"


def _dynset(of: Fields) -> str:
    registers = f"reg_key {_number(of, 4)} set {text_of(of[1])} sreg_data {_number(of, 5)}"
    change = ("add", "update", "delete")[_number(of, 3)]
    return f"dynset {change} {registers} timeout {_number(of, 6)}ms"


EXPRESSIONS: dict[str, Callable[[Fields], str]] = {
    "payload": _payload,
    "meta": _meta,
    "ct": _ct,
    "fib": _fib,
    "numgen": _numgen,
    "hash": _hash,
    "byteorder": _byteorder,
    "lookup": _lookup,
    "cmp": _cmp,
    "bitwise": _bitwise,
    "immediate": _immediate,
    "nat": _nat,
    "dynset": _dynset,
    "masq": lambda of: f"masq flags {_number(of, 1):#x}",
    "reject": lambda of: f"reject type {_number(of, 1)} code {_number(of, 2)}",
    "objref": lambda of: f"objref type {_number(of, 1)} name {text_of(of[2])}",
}


def rule_lines(expressions: bytes) -> list[str]:
    """The expressions of a rule, one a line."""
    lines = []
    for _, _, expression in parts(expressions):
        named = attributes(expression)
        lines.append(f"[ {EXPRESSIONS[text_of(named[1])](attributes(named[2]))} ]")
    return lines


def element_line(element: bytes) -> str:
    """An element of a set or map: its key or range, its data, and whether it ends a range."""
    found = attributes(element)
    line = f"element {words(attributes(found[KEY])[1])}"
    if KEY_END in found:
        line += f" - {words(attributes(found[KEY_END])[1])}"
    if DATA in found:
        line += f" : {_value(found[DATA])}"
    return line + (" end" if FLAGS in found else "")


def message_lines(data: bytes) -> list[str]:
    """One message: what it does, and below it the rule or the elements that it carries."""
    (message,) = decode(data)
    family = FAMILIES[message.payload[0]]
    payload = message.payload[NFGENMSG.size :]
    of = attributes(payload)
    table = f"{family} {text_of(of[1])}"
    if message.type in {NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM}:
        if 3 not in of:
            return [f"flush set {table} {text_of(of[2])}"]
        verb = "add" if message.type == NFT_MSG_NEWSETELEM else "delete"
        elements = [element_line(part.value) for part in parts(of[3])]
        return [f"{verb} elements {table} {text_of(of[2])}", *elements]
    if message.type == NFT_MSG_NEWRULE:
        return [f"add rule {table} {text_of(of[2])}", *rule_lines(of[4])]
    names = {NFT_MSG_NEWTABLE: 1, NFT_MSG_DELTABLE: 1, NFT_MSG_NEWCHAIN: 3, NFT_MSG_DELCHAIN: 3}
    kind = names.get(message.type, 2)
    return [f"{VERBS[message.type]} {table}" + ("" if kind == 1 else f" {text_of(of[kind])}")]
