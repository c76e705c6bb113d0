"""HTTP/2 frames, cut out of a stream of bytes.

h2 speaks the protocol. Only GOAWAY is not handed to it: after one, h2 refuses to read the
responses that the server still sends.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

MAX_FRAME_SIZE = 64 * 1024
"""Of the payloads that we accept. Also limits how long other tasks wait while one is handled."""

GOAWAY = 7
_HEAD_SIZE = 9
_HEAD = Struct(">HBBBI")
_STREAM_ID = 0x7FFFFFFF
_GOAWAY_FIELDS = 8


class InvalidFrame(Exception):
    """Bytes that are no frame of HTTP/2, or a larger one than we accept."""


class Frame(NamedTuple):
    """A frame; `encoded` is all of it."""

    type: int
    encoded: bytes


class FrameSplitter:
    """Splits a stream of bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that are complete now; `InvalidFrame` ends it for good."""
        data = self._rest + chunk if self._rest else chunk
        position, size = 0, len(data)
        while size - position >= _HEAD_SIZE:
            high, low, type_, _, _ = _HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > MAX_FRAME_SIZE:
                raise InvalidFrame(f"a frame of {length} bytes")
            end = position + _HEAD_SIZE + length
            if end > size:
                break
            yield Frame(type_, data[position:end])
            position = end
        self._rest = data[position:]


def last_stream_of(goaway: Frame) -> int:
    """The last stream that a server has processed, or will, according to its GOAWAY."""
    fields = goaway.encoded[_HEAD_SIZE:]
    if len(fields) < _GOAWAY_FIELDS:
        raise InvalidFrame("a GOAWAY without its fields")
    return int.from_bytes(fields[:4], "big") & _STREAM_ID
