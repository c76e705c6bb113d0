"""Netlink attributes as bytes. nftables wants its numbers in network byte order."""

import struct

_HEADER = struct.Struct("=HH")
_U32 = struct.Struct("!I")
_U64 = struct.Struct("!Q")


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    length = 4 + len(value)
    return _HEADER.pack(length, kind) + value + bytes(-length % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """An attribute made of attributes, without the flag that says so: nf_tables dumps none."""
    return attribute(kind, b"".join(parts))


def u32(kind: int, value: int) -> bytes:
    """A number of 32 bits; a negative one in two's complement."""
    return attribute(kind, _U32.pack(value & 0xFFFFFFFF))


def u64(kind: int, value: int) -> bytes:
    """A number of 64 bits."""
    return attribute(kind, _U64.pack(value))


def text(kind: int, value: str) -> bytes:
    """A text with its final zero byte."""
    return attribute(kind, value.encode() + b"\0")
