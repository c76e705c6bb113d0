"""The hash that nft calls jhash: Bob Jenkins' lookup3, as the kernel computes it."""

from struct import iter_unpack

_START = 0xDEADBEEF
_BLOCK = 12
_WORD = 0xFFFFFFFF


def jhash(data: bytes, seed: int) -> int:
    """The hash of words of four bytes in the byte order of the machine: 32 bits."""
    a = b = c = (_START + len(data) + seed) & _WORD
    whole = max(0, len(data) - 1) // _BLOCK * _BLOCK
    for x, y, z in iter_unpack("<III", data[:whole]):
        a, b, c = _mix((a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD)
    x, y, z = next(iter_unpack("<III", data[whole:].ljust(_BLOCK, b"\0")))
    return _final((a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        # Each of the three takes its turn: the names move on.
        a = (a - c & _WORD) ^ _rotated(c, by)
        a, b, c = b, c + b & _WORD, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, by) & _WORD
        a, b, c = b, c, a
    return b
