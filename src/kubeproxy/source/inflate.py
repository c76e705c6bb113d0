"""gzip, cut anywhere -> the bytes that are readable so far. No I/O.

The API server compresses watch-lists, and writes one gzip member for each event or one for all of
them, as it likes: both are streams of members here.
"""

import zlib

GZIP = 16 + zlib.MAX_WBITS
WINDOW = 4096
"""What follows a member is copied at its end: so much at most."""


class Inflater:
    """Keeps the state of the member under way."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP)

    def feed(self, data: bytes) -> bytes:
        """What the data brings; raises `zlib.error` when it is not gzip."""
        whole = memoryview(data)
        pieces = []
        for start in range(0, len(data), WINDOW):
            rest: bytes | memoryview = whole[start : start + WINDOW]
            while rest:
                if self._member.eof:
                    self._member = zlib.decompressobj(GZIP)
                pieces.append(self._member.decompress(rest))
                rest = self._member.unused_data
        return b"".join(pieces)
