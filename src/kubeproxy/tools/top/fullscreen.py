"""A terminal as a whole screen: keys as they are pressed, lines where they belong.

Whatever ends it, the terminal is as it was: its modes, its cursor, what stood on it.
"""

import codecs
import contextlib
import os
import re
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, Self

from msgspec.structs import replace

from kubeproxy.tools.command import display_of
from kubeproxy.tools.layout import Line, painted

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The alternate screen, no cursor, and lines that are too long do not wrap."""
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEY: Final = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_SENT: Final = {
    "up": ("\x1b[A", "\x1bOA"),
    "down": ("\x1b[B", "\x1bOB"),
    "page-up": ("\x1b[5~",),
    "page-down": ("\x1b[6~",),
    "home": ("\x1b[H", "\x1bOH", "\x1b[1~"),
    "end": ("\x1b[F", "\x1bOF", "\x1b[4~"),
    "escape": ("\x1b",),
    "enter": ("\r", "\n"),
    "backspace": ("\x7f", "\x08"),
}
"""What terminals send for keys that are no letters."""
_NAMES: Final = {text: name for name, texts in _SENT.items() for text in texts}

_Handler = Callable[[int, FrameType | None], None]


def keys(text: str) -> list[str]:
    """The keys that a terminal sent; those without a name of ours are left out."""
    named = (_NAMES.get(found, found) for found in _KEY.findall(text))
    return [key for key in named if not key.startswith("\x1b")]


class Fullscreen:
    """The terminal of standard input and output, from entering to leaving.

    SIGTERM and SIGHUP end the program as they should, after the terminal has been restored; a
    program that is stopped gives the terminal back, and takes it again when it continues.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._display = replace(display_of(sys.stdout, os.environ), width=None)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._modes = termios.tcgetattr(self._input)
        self._woken, self._wake = socket.socketpair()
        self._is_to_stop = False
        self._restores = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            for end in (self._woken, self._wake):
                undo.callback(end.close)
                end.setblocking(False)
            before = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
            undo.callback(signal.set_wakeup_fd, before)
            handlers: dict[signal.Signals, _Handler] = {
                signal.SIGWINCH: _nothing,
                signal.SIGTERM: _end,
                signal.SIGHUP: _end,
                signal.SIGTSTP: self._note_stop,
            }
            for number, handler in handlers.items():
                undo.callback(signal.signal, number, signal.signal(number, handler))
            undo.callback(self._release)
            self._take()
            self._restores = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._restores.close()

    def wake(self) -> None:
        """Have `wait` return; from any thread."""
        with contextlib.suppress(OSError):  # it is full, or closed: nothing waits
            self._wake.send(b"\0")

    def wait(self, seconds: float) -> list[str]:
        """The keys that were pressed; none when the time is over, or something woke us."""
        ready, _, _ = select.select([self._input, self._woken], [], [], max(0.0, seconds))
        if self._woken in ready:
            self._woken.recv(4096)
        if self._is_to_stop:
            self._stop()
        return keys(self._read()) if self._input in ready else []

    def _read(self) -> str:
        try:
            data = os.read(self._input, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            raise SystemExit(128 + signal.SIGHUP)
        return self._decoder.decode(data)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        found = os.get_terminal_size(sys.stdout.fileno())
        return found.columns or 80, found.lines or 24

    def draw(self, lines: Sequence[Line]) -> None:
        """Show the lines, which are as many as there are rows and fit the columns.

        Each row is erased before it is written: after the last column of a row the cursor still
        stands on it, and erasing from there would take that character away again.
        """
        text = "\r\n".join(f"\x1b[K{painted(each, self._display)}" for each in lines)
        _write(f"\x1b[H{text}\x1b[H")

    def _note_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_to_stop = True  # in `wait`: here, a screen may be half drawn

    def _stop(self) -> None:
        self._is_to_stop = False
        self._release()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def _take(self) -> None:
        self._modes = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        _write(_ENTER)

    def _release(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._modes)
            _write(_LEAVE)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The signal's byte in the pipe is enough."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]
