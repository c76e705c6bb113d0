"""gzip, cut anywhere -> the bytes that are readable so far, a piece at a time. No I/O.

The API server compresses watch-lists, and writes one gzip member for each event or one for all of
them, as it likes: both are streams of members here. A byte can stand for a thousand, so that what
came is not inflated at once but as somebody takes it.
"""

import zlib

GZIP = 16 + zlib.MAX_WBITS
WINDOW = 4096
"""What follows a member is copied at its end: so much at most."""
PIECE = 1024 * 1024
"""So much is inflated before somebody looks at it."""


class Inflater:
    """Keeps the state of the member under way, and what came and is not inflated yet."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP)
        self._waiting = memoryview(b"")
        self._rest: bytes | memoryview = b""

    def feed(self, data: bytes) -> None:
        """Bytes came, when all of those before have been taken."""
        self._waiting = memoryview(data)

    def take(self) -> bytes:
        """The next piece; empty when there is none yet. `zlib.error` when it is not gzip."""
        pieces: list[bytes] = []
        room = PIECE
        while room:
            if not self._rest:
                self._rest, self._waiting = self._waiting[:WINDOW], self._waiting[WINDOW:]
            if self._member.eof and self._rest:
                self._member = zlib.decompressobj(GZIP)
            # Without new input too: what did not fit into the last piece waits inside.
            piece = self._member.decompress(self._rest, room)
            self._rest = self._member.unused_data or self._member.unconsumed_tail
            if not piece and not self._rest and not self._waiting:
                break
            pieces.append(piece)
            room -= len(piece)
        return b"".join(pieces)
