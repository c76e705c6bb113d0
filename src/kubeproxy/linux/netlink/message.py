"""Netlink messages and their attributes. Everything is in host byte order, padded to 4 bytes."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")

NLMSG_ERROR = 2
NLMSG_DONE = 3

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10  # in an answer: what is dumped changed meanwhile
NLM_F_DUMP = 0x300

_TYPE_MASK = 0x3FFF  # without the nested and byte-order flags


class Message(NamedTuple):
    """One message: its type, flags, sequence number, what follows the header, and who sent it.

    The port is that of the socket which caused the message. In a request it may stay 0: the
    kernel knows.
    """

    type: int
    flags: int
    sequence: int
    payload: bytes
    port: int = 0


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
        found[kind & _TYPE_MASK] = data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3
    return found
