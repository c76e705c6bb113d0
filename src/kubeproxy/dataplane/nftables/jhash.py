"""The hash that nft calls jhash: Bob Jenkins' lookup3, as the kernel computes it.

Written out, for a start may hash hundreds of thousands of endpoints. A rotated word may have more
than 32 bits where what is made of it is cut to 32.
"""

from struct import Struct

_START = 0xDEADBEEF
_BLOCK = Struct("<III")
_WORD = 0xFFFFFFFF


def jhash(data: bytes, seed: int) -> int:
    """The hash of bytes: 32 bits."""
    a = b = c = _START + len(data) + seed & _WORD
    at = 0
    while len(data) - at > _BLOCK.size:
        x, y, z = _BLOCK.unpack_from(data, at)
        a, b, c = _mix(a + x & _WORD, b + y & _WORD, c + z & _WORD)
        at += _BLOCK.size
    x, y, z = _BLOCK.unpack(data[at:].ljust(_BLOCK.size, b"\0"))
    return _final(a + x & _WORD, b + y & _WORD, c + z & _WORD)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - c ^ (c << 4 | c >> 28)) & _WORD
    c = c + b & _WORD
    b = (b - a ^ (a << 6 | a >> 26)) & _WORD
    a = a + c & _WORD
    c = (c - b ^ (b << 8 | b >> 24)) & _WORD
    b = b + a & _WORD
    a = (a - c ^ (c << 16 | c >> 16)) & _WORD
    c = c + b & _WORD
    b = (b - a ^ (a << 19 | a >> 13)) & _WORD
    a = a + c & _WORD
    c = (c - b ^ (b << 4 | b >> 28)) & _WORD
    return a, b + a & _WORD, c


def _final(a: int, b: int, c: int) -> int:
    c = (c ^ b) - (b << 14 | b >> 18) & _WORD
    a = (a ^ c) - (c << 11 | c >> 21) & _WORD
    b = (b ^ a) - (a << 25 | a >> 7) & _WORD
    c = (c ^ b) - (b << 16 | b >> 16) & _WORD
    a = (a ^ c) - (c << 4 | c >> 28) & _WORD
    b = (b ^ a) - (a << 14 | a >> 18) & _WORD
    return (c ^ b) - (b << 24 | b >> 8) & _WORD
