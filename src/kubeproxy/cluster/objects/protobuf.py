"""Messages of protobuf -> values, of which only the fields that are read are decoded.

A message is a table of fields. What a table does not name is skipped by its length. The API server
writes fields that are no pointers in Go even when they are empty, which its JSON leaves out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

_Value = TypeVar("_Value")
Decode = Callable[[bytes], Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SKIPPED = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10


class InvalidProtobuf(ValueError):
    """Bytes that are no message of protobuf."""


class Field(msgspec.Struct, frozen=True):
    """A field of a message: its number, the attribute of the value, and how to decode it.

    `decode` is for what has a length; other fields are numbers. Of a `repeated` field all values
    are kept, of others the last one, and an empty one only with `keep_empty`: in Go, that is a
    pointer or a message.
    """

    number: int
    name: str
    decode: Decode | None = None
    repeated: bool = False
    keep_empty: bool = False

    @property
    def tag(self) -> int:
        """The number and the wire type, as a message has them."""
        return self.number << 3 | (_VARINT if self.decode is None else _BYTES)


class Message(Generic[_Value]):
    """Decodes messages to values of a type."""

    def __init__(self, type_: type[_Value], *fields: Field) -> None:
        self._type = type_
        self._fields = {field.tag: field for field in fields}

    def decode(self, data: bytes) -> _Value:
        """The value of a message. Raises `InvalidProtobuf`, or a `UnicodeDecodeError`."""
        try:
            return self._type(**_values(data, self._fields))
        except IndexError as error:
            raise InvalidProtobuf("a message is cut off") from error


def _values(data: bytes, fields: Mapping[int, Field]) -> dict[str, Any]:  # noqa: C901, PLR0912
    """The values of the fields, by name. Raises an `IndexError` where data is cut off.

    One function, with short numbers read in place: every endpoint of a slice passes through it.
    """
    values: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = _varint(data, position - 1)
        field = fields.get(tag)
        wire_type = tag & 7
        if wire_type == _BYTES:
            size = data[position]
            position += 1
            if size > 127 and data[position] < 128:  # as of most endpoints
                size, position = size & 127 | data[position] << 7, position + 1
            elif size > 127:
                size, position = _varint(data, position - 1)
            start, position = position, position + size
            if field is None:
                continue
            if position > end:
                raise IndexError
            value = field.decode(data[start:position])  # type: ignore[misc]  # its tag says so
        elif wire_type == _VARINT:
            value, position = _varint(data, position)
            if field is None:
                continue
        elif wire_type in _SKIPPED:
            position += _SKIPPED[wire_type]
            continue
        else:
            raise InvalidProtobuf(f"a field of wire type {wire_type}")
        if field.repeated:
            lists.setdefault(field.name, []).append(value)
        elif value or field.keep_empty:
            values[field.name] = value
    if position > end:
        raise IndexError
    for name, found in lists.items():
        values[name] = tuple(found)
    return values


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, as signed 64 bits, and the position behind it."""
    value = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            value &= (1 << 64) - 1
            return value - (1 << 64) if value >> 63 else value, position
    raise InvalidProtobuf("a number of more than ten bytes")


def text(data: bytes) -> str:
    """A string."""
    return str(data, "utf-8")


MAGIC = b"k8s\0"


class _Unknown(msgspec.Struct):
    """`runtime.Unknown`: a message, and what kind of object it is."""

    raw: bytes = b""
    encoding: str = ""


_UNKNOWN = Message(_Unknown, Field(2, "raw", bytes), Field(3, "encoding", text))


def unwrapped(body: bytes) -> bytes:
    """The message in a body of the API server."""
    if not body.startswith(MAGIC):
        raise InvalidProtobuf("it does not begin as the API server's protobuf does")
    found = _UNKNOWN.decode(body[len(MAGIC) :])
    if found.encoding:
        raise InvalidProtobuf(f"it is encoded as {found.encoding}")
    return found.raw
