"""Output that never waits for its reader, for the daemon's log.

A pipe that is not read is full after 64 KiB; a write to it then blocks the event loop and with it
all syncs, for ever. Here what does not fit is kept in memory, in order, and a thread writes it
when there is room. When that is too much, lines are dropped, and a line in their place says how
many.

As long as the reader keeps up, every line is written before `write` returns.
"""

import atexit
import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable

KEPT_BYTES = 4 << 20
_PIECE = select.PIPE_BUF
"""A pipe or socket that is writable has room for so much at least."""
_LAST_SECONDS = 1.0


def install(lost: Callable[[int], str]) -> None:
    """Put such a stream in front of standard output and standard error, until the process ends.

    `lost` makes the line that counts the missing ones. Streams without a descriptor stay.
    """
    for name in ("stdout", "stderr"):
        given = getattr(sys, name)
        try:
            stream = LogStream(given.fileno(), given.encoding, lost)
        except (OSError, ValueError):
            continue
        given.flush()
        setattr(sys, name, stream)
        atexit.register(stream.settle, _LAST_SECONDS)


class LogStream(io.TextIOBase):
    """Text that goes to a descriptor; each `write` is a line, or several."""

    def __init__(self, descriptor: int, encoding: str, lost: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._lost_line = lost
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0

    def fileno(self) -> int:
        """The descriptor, which is not closed here."""
        return self._descriptor

    def write(self, text: str) -> int:
        """Write it now, or keep it until there is room; drop it when too much is kept."""
        data = self._encoded(text)
        with self._changed:
            if not self._waiting:
                while data and self._room.poll(0):
                    data = self._write_piece(data)
            if data:
                self._keep(data)
        return len(text)

    def settle(self, seconds: float) -> None:
        """Wait until all that was kept is written, but no longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, "backslashreplace")

    def _write_piece(self, data: bytes) -> bytes:
        """Write the beginning; the rest comes back. Nothing is left for a reader that is gone."""
        try:
            return data[os.write(self._descriptor, data[:_PIECE]) :]
        except BlockingIOError:
            return data
        except OSError:
            return b""

    def _keep(self, data: bytes) -> None:
        if not self._waiting:
            self._append(data)
            threading.Thread(target=self._drain, name="log", daemon=True).start()
        elif self._size + len(data) > KEPT_BYTES:
            self._lost += 1
        else:
            self._count_lost()
            self._append(data)

    def _append(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    def _count_lost(self) -> None:
        if self._lost:
            self._append(self._encoded(self._lost_line(self._lost)))
            self._lost = 0

    def _drain(self) -> None:
        """Write what was kept, in a thread that ends with it.

        While something is waiting, only this thread writes and removes.
        """
        while True:
            self._room.poll()
            data = self._waiting[0]
            rest = self._write_piece(data)
            with self._changed:
                self._size -= len(data) - len(rest)
                if rest:
                    self._waiting[0] = rest
                    continue
                if len(self._waiting) == 1:
                    self._count_lost()
                self._waiting.popleft()
                self._changed.notify_all()
                if not self._waiting:
                    return
