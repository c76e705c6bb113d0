"""Decoding of JSON that is nested too deep for the decoder.

The API server accepts objects that are nested thousands of levels deep, such as `managedFields`.
That exceeds the recursion limit of some versions of Python. The proxy reads nothing below a dozen
levels, so what is deeper is left out.
"""

import re
from typing import TypeVar

import msgspec

_DEEPEST = 50
# Up to the next bracket that is not part of a string.
_TO_BRACKET = re.compile(
    rb"""(?: [^][{}"]++ | "[^"\\]*+(?:\\.[^"\\]*+)*+" )*+ [][{}]""", re.DOTALL | re.VERBOSE
)

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding raises for invalid bytes."""

_Decoded = TypeVar("_Decoded")


def decode_nested(
    decoder: msgspec.json.Decoder[_Decoded], data: bytes | bytearray | msgspec.Raw
) -> _Decoded:
    """The decoded value, however deep the rest is nested."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(without_depths(bytes(data)))


def without_depths(data: bytes, deepest: int = _DEEPEST) -> bytes:
    """The JSON with null for every object and list below so many levels."""
    kept: list[bytes] = []
    depth = begun = 0
    for found in _TO_BRACKET.finditer(data):
        end = found.end()
        if data[end - 1] in b"{[":
            if depth == deepest:
                kept += data[begun : end - 1], b"null"
            depth += 1
        else:
            depth -= 1
            if depth == deepest:
                begun = end
    if depth <= deepest:
        kept.append(data[begun:])
    return b"".join(kept)
