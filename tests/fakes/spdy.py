"""As much of SPDY/3.1 as `kubectl exec` speaks: streams with headers, data both ways. No I/O."""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import msgspec

_METHODS: Final = "options head post put delete trace"
_FIELDS: Final = (
    "accept accept-charset accept-encoding accept-language accept-ranges age allow authorization"
    " cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host"
    " if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location"
    " max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server"
    " te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get"
    " status"
)
_MORE: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive")
_CODES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
)
_REASONS: Final = (
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service Unavailable"
)
_DATES: Final = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00"
_DAYS: Final = " Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
_TYPES: Final = (
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
    "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)
_WORDS: Final = (*_METHODS.split(), *_FIELDS.split(), *_MORE, "origin")
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS)
    + f"{_CODES}{_REASONS}{_DATES}{_DAYS}{_TYPES}".encode()
)
"""What both ends assume to have been compressed before the first headers."""

_CONTROL: Final = 0x8003
_HEAD: Final = struct.Struct(">II")
_STREAM: Final = struct.Struct(">IIH")
FIN: Final = 1


class Type(IntEnum):
    """The control frames that are understood; others are skipped."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    PING = 6


class Opened(msgspec.Struct, frozen=True):
    """A stream that the other end opened."""

    stream: int
    headers: dict[str, str]


class Ping(msgspec.Struct, frozen=True):
    """It wants its number back."""

    number: bytes


class Spdy:
    """One end of a connection: bytes in, events out; and frames to send."""

    def __init__(self) -> None:
        self._waiting = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def received(self, data: bytes) -> Iterator[Opened | Ping]:
        """What the other end says; its data is not of interest."""
        self._waiting += data
        while len(self._waiting) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._waiting)
            size = _HEAD.size + (second & 0xFFFFFF)
            if len(self._waiting) < size:
                return
            body, self._waiting = self._waiting[_HEAD.size : size], self._waiting[size:]
            if first >> 16 == _CONTROL and first & 0xFFFF == Type.SYN_STREAM:
                stream, _, _ = _STREAM.unpack_from(body)
                yield Opened(stream, self._headers(body[_STREAM.size :]))
            elif first >> 16 == _CONTROL and first & 0xFFFF == Type.PING:
                yield Ping(body)

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        (count,) = struct.unpack_from(">I", plain)
        place, texts = 4, []
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", plain, place)
            texts.append(plain[place + 4 : place + 4 + size].decode())
            place += 4 + size
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def accept(self, stream: int) -> bytes:
        """The frame that accepts a stream, without headers."""
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(Type.SYN_REPLY, struct.pack(">I", stream) + block)


def _control(type_: Type, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL << 16 | type_, len(body)) + body


def pong(ping: Ping) -> bytes:
    """The answer to a ping."""
    return _control(Type.PING, ping.number)


def data_frame(stream: int, data: bytes, *, last: bool = False) -> bytes:
    """Data of a stream; the last of it closes our half."""
    return _HEAD.pack(stream, (FIN if last else 0) << 24 | len(data)) + data
