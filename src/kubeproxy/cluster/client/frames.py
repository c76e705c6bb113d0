"""HTTP/2 frames, cut out of a stream of bytes.

h2 speaks the protocol. Two kinds of frames are not handed to it: GOAWAY, because h2 refuses to
read the responses that a server still sends after one, and the DATA of watches, because h2 needs
five times as long for them.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

MAX_FRAME_SIZE = 64 * 1024
"""Of the payloads that we accept. Also limits how long other tasks wait while one is handled."""

DATA = 0
GOAWAY = 7
_WINDOW_UPDATE = 8
_END_STREAM = 1
_PADDED = 8
_HEAD_SIZE = 9
_HEAD = Struct(">HBBBI")
_STREAM_ID = 0x7FFFFFFF
_GOAWAY_FIELDS = 8


class InvalidFrame(Exception):
    """Bytes that are no frame of HTTP/2, or a larger one than we accept."""


class Frame(NamedTuple):
    """A frame; `encoded` is all of it."""

    type: int
    flags: int
    stream_id: int
    encoded: bytes

    @property
    def size(self) -> int:
        """Bytes of the payload, which is what flow control counts."""
        return len(self.encoded) - _HEAD_SIZE

    @property
    def ends_stream(self) -> bool:
        """Whether this DATA frame is the last of its stream."""
        return bool(self.flags & _END_STREAM)


class FrameSplitter:
    """Splits a stream of bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that are complete now; `InvalidFrame` ends it for good."""
        data = self._rest + chunk if self._rest else chunk
        position, size = 0, len(data)
        while size - position >= _HEAD_SIZE:
            high, low, type_, flags, stream = _HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > MAX_FRAME_SIZE:
                raise InvalidFrame(f"a frame of {length} bytes")
            end = position + _HEAD_SIZE + length
            if end > size:
                break
            yield Frame(type_, flags, stream & _STREAM_ID, data[position:end])
            position = end
        self._rest = data[position:]


def content_of(frame: Frame) -> bytes:
    """What a DATA frame carries, without its padding."""
    if not frame.flags & _PADDED:
        return frame.encoded[_HEAD_SIZE:]
    if frame.size < 1 or frame.encoded[_HEAD_SIZE] >= frame.size:
        raise InvalidFrame("more padding than data")
    return frame.encoded[_HEAD_SIZE + 1 : len(frame.encoded) - frame.encoded[_HEAD_SIZE]]


def end_of_stream(stream_id: int) -> bytes:
    """An empty DATA frame that ends the stream."""
    return _HEAD.pack(0, 0, DATA, _END_STREAM, stream_id)


def window_update(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame; stream 0 is the whole connection."""
    return _HEAD.pack(0, 4, _WINDOW_UPDATE, 0, stream_id) + increment.to_bytes(4, "big")


def last_stream_of(goaway: Frame) -> int:
    """The last stream that a server has processed, or will, according to its GOAWAY."""
    fields = goaway.encoded[_HEAD_SIZE:]
    if len(fields) < _GOAWAY_FIELDS:
        raise InvalidFrame("a GOAWAY without its fields")
    return int.from_bytes(fields[:4], "big") & _STREAM_ID
