"""The netfilter socket of a fake kernel: it keeps what is committed, and can fail."""

import errno
from collections.abc import Iterator, Sequence

from fakes.ruleset import KernelSet, KernelTable, Ruleset, elements_in, parts, text_of
from kubeproxy.linux.netlink.attribute import attribute, nested, text, u32, u64
from kubeproxy.linux.netlink.message import (
    WHOLE_BATCH,
    Message,
    MessageError,
    attributes,
    decode,
    encode,
)
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_DELTABLE,
    NFT_MSG_GETCHAIN,
    NFT_MSG_GETRULE,
    NFT_MSG_GETSET,
    NFT_MSG_GETSETELEM,
    NFT_MSG_GETTABLE,
)
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import GenerationChanged, Nfnetlink

IN_ONE_DATAGRAM = 3
"""A dump is split into many messages, whatever its size."""


class FakeNftables(Nfnetlink):
    """Stands in for `Nfnetlink`, on a `Ruleset` that several sockets may share.

    `others` is how many commits fail because of a concurrent change; `broken` is the error
    that every transaction gets, 0 for none. A `stubborn` one takes whole tables and no change of
    one. `commits` are the transactions that succeeded.
    """

    def __init__(self, ruleset: Ruleset | None = None, *, room: int = 1 << 20) -> None:
        self.ruleset = ruleset or Ruleset()
        self.port_id = 4711
        self.room = room
        self.others = 0
        self.broken = 0
        self.stubborn = False
        self.commits: list[list[bytes]] = []
        self.closed = False

    @property
    def max_batch(self) -> int:
        return self.room

    @property
    def max_answers(self) -> int:
        return 7

    def close(self) -> None:
        self.closed = True

    def generation(self) -> int:
        return self.ruleset.generation

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        if not messages:
            return
        if sum(map(len, messages)) > self.room:
            raise Refused("commit", MessageError(WHOLE_BATCH, errno.EMSGSIZE))
        if self.broken:
            raise Refused("commit", MessageError(WHOLE_BATCH, self.broken))
        if self.stubborn and not any(
            decoded.type == NFT_MSG_DELTABLE for decoded in _all(messages)
        ):
            raise Refused("commit", MessageError(0, errno.ENOENT))
        if self.others:
            self.others -= 1
            self.ruleset.generation += 1
        if generation not in {None, self.ruleset.generation}:
            raise GenerationChanged("commit: concurrent change")
        refused = self.ruleset.carry_out(list(messages))
        if refused:
            errors = (MessageError(at, why.number, "", why.offset) for at, why in refused)
            raise Refused("commit", *errors)
        self.commits.append(list(messages))

    def rehearse(self, messages: Sequence[bytes]) -> None:
        """This kernel refuses nothing in a check."""

    def get(self, message_type: int, family: int, payload: bytes = b"") -> Message:
        assert message_type == NFT_MSG_GETTABLE
        return _answer(message_type, family, self._table(family, payload).declared)

    def dump(self, message_type: int, family: int, payload: bytes = b"") -> list[Message]:
        if message_type == NFT_MSG_GETCHAIN:  # of all tables
            tables = [t for (of, _), t in self.ruleset.tables.items() if of == family]
            bodies = [chain.declared for table in tables for chain in table.chains.values()]
        else:
            table = self._table(family, payload)
            bodies = list(_LISTINGS[message_type](table, payload))
        return [_answer(message_type, family, body) for body in bodies]

    def get_each(self, message_type: int, family: int, payload: bytes) -> list[bytes]:
        set_ = self._set(family, payload)
        answers = []
        for _, head, _ in elements_in(_answer(message_type, family, payload)):
            if head not in set_.elements:
                raise _missing()
            listed = nested(3, _element(set_, head, set_.elements[head]))
            answers.append(encode(_answer(message_type, family, _named(payload) + listed)))
        return answers

    def _table(self, family: int, payload: bytes) -> KernelTable:
        table = self.ruleset.tables.get((family, text_of(attributes(payload)[1])))
        if table is None:
            raise _missing()
        return table

    def _set(self, family: int, payload: bytes) -> KernelSet:
        return _set_in(self._table(family, payload), payload)


def _all(messages: Sequence[bytes]) -> Iterator[Message]:
    for message in messages:
        yield from decode(message)


def _missing() -> Refused:
    return Refused("get", MessageError(WHOLE_BATCH, errno.ENOENT))


def _set_in(table: KernelTable, payload: bytes) -> KernelSet:
    set_ = table.sets.get(text_of(attributes(payload)[2]))
    if set_ is None:
        raise _missing()
    return set_


def _answer(kind: int, family: int, body: bytes) -> Message:
    return Message(kind, 0, 1, NFGENMSG.pack(family, 0, 0) + body)


def _named(payload: bytes) -> bytes:
    """The names of the table and the set that are asked for."""
    return b"".join(attribute(part.kind, part.value) for part in parts(payload) if part.kind < 3)


def _sets(table: KernelTable, _payload: bytes) -> Iterator[bytes]:
    for set_ in table.sets.values():
        yield set_.declared + u32(20, len(set_.elements))


def _rules(table: KernelTable, payload: bytes) -> Iterator[bytes]:
    for name, chain in table.chains.items():
        for handle, rule in enumerate(chain.rules, 1):
            named = attribute(1, attributes(payload)[1]) + text(2, name)
            yield named + u64(3, handle) + attribute(4, rule)


def _elements(table: KernelTable, payload: bytes) -> Iterator[bytes]:
    set_ = _set_in(table, payload)
    listed = [_element(set_, head, tail) for head, tail in set_.elements.items()]
    for start in range(0, max(len(listed), 1), IN_ONE_DATAGRAM):
        yield _named(payload) + nested(3, *listed[start : start + IN_ONE_DATAGRAM])


def _element(set_: KernelSet, head: bytes, tail: bytes) -> bytes:
    counter = nested(7, text(1, "counter"), nested(2, u64(1, 0), u64(2, 0)))
    return nested(1, head, tail, counter if set_.shape.counts else b"")


_LISTINGS = {NFT_MSG_GETSET: _sets, NFT_MSG_GETRULE: _rules, NFT_MSG_GETSETELEM: _elements}
