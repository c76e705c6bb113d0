"""Netlink messages, their attributes, and errors. Host byte order, padded to 4 bytes."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import Family

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")

AF = {Family.IPV4: 2, Family.IPV6: 10}
"""The kernel's numbers for the families, here and in all subsystems."""

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLMSG_MIN_TYPE = 0x10  # messages of subsystems; those below control netlink itself

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10  # in an answer: what is dumped changed meanwhile
NLM_F_DUMP = 0x300
NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x200, 0x400, 0x800
NLM_F_CAPPED = 0x100  # in an error: the payload of the refused message is left out
NLM_F_ACK_TLVS = 0x200  # in an error: attributes follow

WHOLE_BATCH = -1
"""The index of an error that is about no single message of a batch."""

_NLMSGERR_ATTR_MSG, _NLMSGERR_ATTR_OFFS = 1, 2
_ERROR = struct.Struct("=i")
_U32 = struct.Struct("=I")
NLA_TYPE_MASK = 0x3FFF  # without the nested and byte-order flags


class Message(NamedTuple):
    """One message: its type, flags, sequence number, what follows the header, and the sender.

    The port is that of the socket which caused the message. In a request it may stay 0: the
    kernel knows.
    """

    type: int
    flags: int
    sequence: int
    payload: bytes
    port: int = 0


class MessageError(msgspec.Struct, frozen=True):
    """Why one message was refused.

    `index` is its place in the batch, or `WHOLE_BATCH`. `text` is the kernel's own explanation
    ("" when it gave none) and `offset` the place of the attribute that it does not like, counted
    from the start of the message.
    """

    index: int
    errno: int
    text: str = ""
    offset: int | None = None


def encode(message: Message) -> bytes:
    """The message as bytes."""
    length = HEADER.size + len(message.payload)
    head = HEADER.pack(length, message.type, message.flags, message.sequence, message.port)
    return head + message.payload + bytes(-length % 4)


def decode(data: bytes) -> Iterator[Message]:
    """The messages in a datagram. A message that is cut off ends it."""
    offset = 0
    while offset + HEADER.size <= len(data):
        length, kind, flags, sequence, port = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > len(data):
            return
        payload = data[offset + HEADER.size : offset + length]
        yield Message(kind, flags, sequence, payload, port)
        offset += (length + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by type; of several of one type the last counts."""
    found = {}
    offset = 0
    while offset + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < ATTRIBUTE.size or offset + length > len(data):
            break
        found[kind & NLA_TYPE_MASK] = data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3
    return found


def refusal(message: Message) -> MessageError | None:
    """Why the kernel refused a message (NLMSG_ERROR) or a dump (NLMSG_DONE); None: it did not.

    The index is that of a message which was numbered from 1; number 0 is `WHOLE_BATCH`.
    """
    (number,) = _ERROR.unpack_from(message.payload)
    if number == 0:
        return None
    error = MessageError(message.sequence - 1, -number)
    if message.type == NLMSG_DONE or not message.flags & NLM_F_ACK_TLVS:
        return error
    start = _ERROR.size
    if message.flags & NLM_F_CAPPED:
        start += HEADER.size
    else:
        (refused,) = _U32.unpack_from(message.payload, start)
        start += (refused + 3) & ~3
    found = attributes(message.payload[start:])
    text = found.get(_NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
    offset = found.get(_NLMSGERR_ATTR_OFFS)
    at = None if offset is None else int(_U32.unpack(offset)[0])
    return msgspec.structs.replace(error, text=text, offset=at)
