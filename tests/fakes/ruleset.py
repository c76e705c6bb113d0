"""The nftables of one network namespace: what the kernel keeps, and what it refuses.

Only the messages that the dataplane sends are understood, and of rules only what they refer to.
Everything stands under the kernel's own rules: verdicts lead to chains that exist, maps are
looked up that exist, keys and data have the size of their set, ranges do not overlap, nothing is
deleted that is not there, and no chain that something leads to.
"""

import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from kubeproxy.linux.netlink.attribute import attribute
from kubeproxy.linux.netlink.message import HEADER, Message, attributes, decode
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_DELCHAIN,
    NFT_MSG_DELOBJ,
    NFT_MSG_DELRULE,
    NFT_MSG_DELSET,
    NFT_MSG_DELSETELEM,
    NFT_MSG_DELTABLE,
    NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWOBJ,
    NFT_MSG_NEWRULE,
    NFT_MSG_NEWSET,
    NFT_MSG_NEWSETELEM,
    NFT_MSG_NEWTABLE,
)

LONGEST_NAME = 255
ELEMENTS = 3
KEY, DATA, FLAGS, KEY_END = 1, 2, 3, 10
VALUE, VERDICT = 1, 2
INTERVAL, MAP, CONCAT = 0x4, 0x8, 0x80
VERDICT_SIZE = 16
_HEAD = (KEY, KEY_END, FLAGS)
_ELEMENTS_AT = HEADER.size + NFGENMSG.size

ElementKey = tuple[str, bytes]


class Refusal(Exception):
    """The kernel does not take a message; `offset` is where in it, by default its first name."""

    def __init__(self, number: int, offset: int = HEADER.size + NFGENMSG.size) -> None:
        super().__init__(errno.errorcode[number])
        self.number = number
        self.offset = offset


class Part(NamedTuple):
    """An attribute, and where it begins."""

    at: int
    kind: int
    value: bytes


def parts(data: bytes) -> Iterator[Part]:
    """The attributes in their order, of which several may be of one kind."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 2], "little")
        kind = int.from_bytes(data[at + 2 : at + 4], "little") & 0x3FFF
        yield Part(at, kind, data[at + 4 : at + length])
        at += (length + 3) & ~3


def text_of(value: bytes) -> str:
    return value.removesuffix(b"\0").decode()


def number_of(value: bytes) -> int:
    return int.from_bytes(value, "big")


class Shape(msgspec.Struct, frozen=True):
    """What the elements of a set are like: `fields` are the sizes of what is concatenated."""

    flags: int
    key: int
    data: int
    fields: tuple[int, ...] = ()
    counts: bool = False


def shape_of(declared: bytes) -> Shape:
    """The shape of a set, from what was said of it."""
    said = attributes(declared)
    fields = attributes(said[9]).get(2, b"")
    return Shape(
        flags=number_of(said.get(3, b"")),
        key=number_of(said[5]),
        data=number_of(said.get(7, b"")),
        fields=tuple(number_of(attributes(field.value)[1]) for field in parts(fields)),
        counts=17 in said,
    )


class KernelSet(msgspec.Struct):
    """A set: what was said of it, and its elements (heads and tails, as `elements` has them)."""

    declared: bytes
    shape: Shape
    elements: dict[bytes, bytes] = {}


class KernelChain(msgspec.Struct):
    """A chain: what was said of it, and the expressions of its rules."""

    declared: bytes
    rules: list[bytes] = []


class KernelTable(msgspec.Struct):
    """A table with all that is in it."""

    declared: bytes
    sets: dict[str, KernelSet] = {}
    chains: dict[str, KernelChain] = {}
    objects: set[str] = set()

    def copy(self) -> "KernelTable":
        return KernelTable(
            self.declared,
            {n: KernelSet(s.declared, s.shape, dict(s.elements)) for n, s in self.sets.items()},
            {name: KernelChain(c.declared, list(c.rules)) for name, c in self.chains.items()},
            set(self.objects),
        )

    def elements(self) -> dict[str, dict[bytes, bytes]]:
        """A copy of all elements."""
        return {name: dict(set_.elements) for name, set_ in self.sets.items()}

    def users_of(self, chain: str) -> list[str]:
        """What leads to a chain: other chains, and sets."""
        rules = [name for name, c in self.chains.items() if chain in targets(b"".join(c.rules))]
        maps = [
            name
            for name, set_ in self.sets.items()
            if any(chain_of(tail[4:]) == chain for tail in set_.elements.values())
        ]
        return [name for name in rules if name != chain] + maps


Tables = dict[tuple[int, str], KernelTable]


def _copied(tables: Tables) -> Tables:
    return {key: table.copy() for key, table in tables.items()}


class Ruleset:
    """The tables by family and name; `generation` counts the transactions.

    `refused` are elements that this kernel does not take, with the error that it gives.
    """

    def __init__(self) -> None:
        self.tables: Tables = {}
        self.generation = 1
        self.refused: dict[ElementKey, int] = {}

    def copy(self) -> "Ruleset":
        """The same content, to go on with apart from this one."""
        other = Ruleset()
        other.tables = _copied(self.tables)
        return other

    def carry_out(self, messages: list[bytes]) -> list[tuple[int, Refusal]]:
        """Do all of it, or nothing: then which messages are at fault, and how."""
        tables = _copied(self.tables)
        refused = []
        for index, message in enumerate(messages):
            try:
                self._do(tables, message)
            except Refusal as refusal:
                refused.append((index, refusal))
        if not refused:
            self.tables = tables
            self.generation += 1
        return refused

    def _do(self, tables: Tables, data: bytes) -> None:
        (message,) = decode(data)
        payload = message.payload[NFGENMSG.size :]
        key = (message.payload[0], text_of(attributes(payload)[1]))
        if message.type == NFT_MSG_NEWTABLE:
            tables.setdefault(key, KernelTable(payload))
        elif key not in tables:
            raise Refusal(errno.ENOENT)
        elif message.type == NFT_MSG_DELTABLE:
            del tables[key]
        elif message.type == NFT_MSG_NEWSETELEM:
            self._add_elements(tables[key], message)
        else:
            _ON_TABLE[message.type](tables[key], payload)

    def _add_elements(self, table: KernelTable, message: Message) -> None:
        name, set_ = _set_of(table, message.payload[NFGENMSG.size :])
        for offset, head, tail in elements_in(message):
            number = self.refused.get((name, head))
            if number is not None:
                raise Refusal(number, offset)
            try:
                _add_element(table, set_, head, tail)
            except Refusal as refusal:
                raise Refusal(refusal.number, offset) from refusal


def elements_in(message: Message) -> Iterator[tuple[int, bytes, bytes]]:
    """The elements of a message: where they begin in it, their heads and tails."""
    payload = message.payload[NFGENMSG.size :]
    (listed,) = (part for part in parts(payload) if part.kind == ELEMENTS)
    for element in parts(listed.value):
        found = attributes(element.value)
        head = b"".join(attribute(kind, found[kind]) for kind in _HEAD if kind in found)
        tail = attribute(DATA, found[DATA]) if DATA in found else b""
        yield _ELEMENTS_AT + listed.at + 4 + element.at, head, tail


def targets(expressions: bytes) -> set[str]:
    """The chains that rules lead to."""
    found = set()
    for _, _, expression in parts(expressions):
        named = attributes(expression)
        if text_of(named[1]) == "immediate":
            found.add(chain_of(attributes(named[2])[2]))
    return found - {""}


def chain_of(data: bytes) -> str:
    """The chain that data leads to; "" when it is no verdict, or one that names none."""
    verdict = attributes(attributes(data).get(VERDICT, b""))
    return text_of(verdict.get(2, b""))


def _set_of(table: KernelTable, payload: bytes) -> tuple[str, KernelSet]:
    name = text_of(attributes(payload)[2])
    if name not in table.sets:
        raise Refusal(errno.ENOENT)
    return name, table.sets[name]


def _need(condition: object, number: int) -> None:
    if not condition:
        raise Refusal(number)


def _add_element(table: KernelTable, set_: KernelSet, head: bytes, tail: bytes) -> None:
    key = attributes(attributes(head)[KEY])[1]
    _need(len(key) == set_.shape.key, errno.EINVAL)
    _need(bool(tail) == bool(set_.shape.flags & MAP), errno.EINVAL)
    if tail:
        _check_data(table, set_, tail)
    if head in set_.elements:
        _need(set_.elements[head] == tail, errno.EEXIST)
        return
    if set_.shape.flags & CONCAT:
        _need(not any(_overlap(set_, head, each) for each in set_.elements), errno.EEXIST)
    elif set_.shape.flags & INTERVAL:
        _check_bound(set_, head)
    set_.elements[head] = tail


def _check_data(table: KernelTable, set_: KernelSet, tail: bytes) -> None:
    data = attributes(attributes(tail)[DATA])
    if VALUE in data:
        _need(len(data[VALUE]) == set_.shape.data, errno.EINVAL)
        return
    _need(set_.shape.data == VERDICT_SIZE, errno.EINVAL)
    chain = chain_of(tail[4:])
    if chain:
        _need(chain in table.chains, errno.ENOENT)
        _need(4 not in attributes(table.chains[chain].declared), errno.EOPNOTSUPP)


def _check_bound(set_: KernelSet, head: bytes) -> None:
    """Ranges begin and end in turn, whenever a bound is added: the beginning comes first."""
    new = bound(head)
    bounds = sorted(map(bound, set_.elements))
    below = [each for each in bounds if each < new]
    above = [each for each in bounds if each > new]
    _need(not below or below[-1].begins != new.begins, errno.EEXIST)
    _need(new.begins or not above or above[0].begins, errno.EEXIST)


class Bound(NamedTuple):
    """Where a range begins, or the first key after it. Of two at one key the end is first."""

    key: bytes
    begins: bool


def bound(head: bytes) -> Bound:
    """The bound that an element of a set of ranges is."""
    found = attributes(head)
    return Bound(attributes(found[KEY])[1], FLAGS not in found)


def _overlap(set_: KernelSet, one: bytes, other: bytes) -> bool:
    """Whether two ranges of a concatenation have a key in common: in every field they do."""
    at = 0
    for size in set_.shape.fields:
        (first, last), (begin, end) = (
            tuple(key[at : at + size] for key in span(head)) for head in (one, other)
        )
        if last < begin or end < first:
            return False
        at += (size + 3) // 4 * 4
    return True


def span(head: bytes) -> tuple[bytes, bytes]:
    """The first and the last key of an element of a set of concatenated ranges."""
    found = attributes(head)
    first = attributes(found[KEY])[1]
    return first, attributes(found[KEY_END])[1] if KEY_END in found else first


def _delete_elements(table: KernelTable, payload: bytes) -> None:
    """Delete the elements that are named, or all when none is."""
    _, set_ = _set_of(table, payload)
    if ELEMENTS not in attributes(payload):
        set_.elements.clear()
        return
    message = Message(NFT_MSG_DELSETELEM, 0, 0, bytes(NFGENMSG.size) + payload)
    begun = None
    for offset, head, _ in elements_in(message):
        if head not in set_.elements or not _may_go(set_, head, begun):
            raise Refusal(errno.ENOENT, offset)
        begun = head
    for _, head, _ in elements_in(message):
        del set_.elements[head]


def _may_go(set_: KernelSet, head: bytes, before: bytes | None) -> bool:
    """Whether an end of a range is deleted straight after its beginning."""
    if set_.shape.flags & CONCAT or not set_.shape.flags & INTERVAL or bound(head).begins:
        return True
    below = [each for each in set_.elements if bound(each) < bound(head)]
    return before is not None and before == max(below, key=bound, default=None)


def _new_set(table: KernelTable, payload: bytes) -> None:
    name = text_of(attributes(payload)[2])
    _need(len(name) <= LONGEST_NAME, errno.ERANGE)
    table.sets.setdefault(name, KernelSet(payload, shape_of(payload)))


def _new_chain(table: KernelTable, payload: bytes) -> None:
    name = text_of(attributes(payload)[3])
    _need(len(name) <= LONGEST_NAME, errno.ERANGE)
    table.chains.setdefault(name, KernelChain(payload))


def _delete_chain(table: KernelTable, payload: bytes) -> None:
    name = text_of(attributes(payload)[3])
    _need(name in table.chains, errno.ENOENT)
    _need(not table.users_of(name), errno.EBUSY)
    del table.chains[name]


def _new_rule(table: KernelTable, payload: bytes) -> None:
    rule = attributes(payload)
    chain, expressions = text_of(rule[2]), rule[4]
    _need(chain in table.chains, errno.ENOENT)
    _need(targets(expressions) <= table.chains.keys(), errno.ENOENT)
    for _, _, expression in parts(expressions):
        named = attributes(expression)
        kind, inner = text_of(named[1]), attributes(named[2])
        if kind in {"lookup", "dynset"}:
            _need(text_of(inner[1]) in table.sets, errno.ENOENT)
        elif kind == "objref":
            _need(text_of(inner[2]) in table.objects, errno.ENOENT)
    table.chains[chain].rules.append(expressions)


def _flush_chain(table: KernelTable, payload: bytes) -> None:
    chain = text_of(attributes(payload)[2])
    _need(chain in table.chains, errno.ENOENT)
    table.chains[chain].rules.clear()


def _new_object(table: KernelTable, payload: bytes) -> None:
    table.objects.add(text_of(attributes(payload)[2]))


def _delete_object(table: KernelTable, payload: bytes) -> None:
    name = text_of(attributes(payload)[2])
    _need(name in table.objects, errno.ENOENT)
    users = (("objref", 2, name, chain) for chain in table.chains.values())
    _need(not any(_refers(*each) for each in users), errno.EBUSY)
    table.objects.remove(name)


def _delete_set(table: KernelTable, payload: bytes) -> None:
    name, _ = _set_of(table, payload)
    kinds = ("lookup", "dynset")
    users = ((kind, 1, name, chain) for chain in table.chains.values() for kind in kinds)
    _need(not any(_refers(*each) for each in users), errno.EBUSY)
    del table.sets[name]


def _refers(kind: str, attribute_of_name: int, name: str, chain: KernelChain) -> bool:
    """Whether an expression of that kind in a rule of the chain names the object."""
    for _, _, expression in parts(b"".join(chain.rules)):
        named = attributes(expression)
        inner = attributes(named.get(2, b""))
        if text_of(named[1]) == kind and text_of(inner[attribute_of_name]) == name:
            return True
    return False


_ON_TABLE: dict[int, Callable[[KernelTable, bytes], None]] = {
    NFT_MSG_NEWSET: _new_set,
    NFT_MSG_NEWCHAIN: _new_chain,
    NFT_MSG_DELCHAIN: _delete_chain,
    NFT_MSG_NEWRULE: _new_rule,
    NFT_MSG_DELRULE: _flush_chain,
    NFT_MSG_NEWOBJ: _new_object,
    NFT_MSG_DELOBJ: _delete_object,
    NFT_MSG_DELSET: _delete_set,
    NFT_MSG_DELSETELEM: _delete_elements,
}
