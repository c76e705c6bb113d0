"""A program in a terminal: typed to, and its screen read, as a person would."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_HOME = "\x1b[H"
_ERASE = "\x1b[K"
PATIENCE = 30.0


def plain(text: str) -> str:
    """The text without its colours."""
    return _STYLE.sub("", text)


def _drawn(line: str, columns: int) -> str:
    """What stands in a row when a line was written to it.

    The cursor never leaves the row: erasing from it takes what stands in the last column, too.
    """
    row = ""
    for number, written in enumerate(line.split(_ERASE)):
        kept = row[: columns - 1] if number else ""
        row = (kept + written)[:columns]
    return row


class Terminal:
    """The other end of a program's terminal."""

    def __init__(self, columns: int, rows: int) -> None:
        self._ours, self.theirs = pty.openpty()
        self.process: subprocess.Popen[bytes] | None = None
        self.said = ""
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.theirs)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a program whose terminal this is: the leader of a session of its own."""
        self.process = subprocess.Popen(
            command,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=environment,
            preexec_fn=_take_terminal,  # noqa: PLW1509  # no other threads matter here
        )

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size; the program gets a signal."""
        self._columns = columns
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def until(self, condition: Callable[[], bool]) -> None:
        """Read on until something is true of what was said."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            left = deadline - time.monotonic()
            assert left > 0, f"never came true; the terminal has:\n{self.said}"
            self._read(min(left, 0.05))

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            self.said += data.decode(errors="replace")
            seconds = 0.0

    def frame(self) -> list[str]:
        """The lines of the last whole screen that was drawn: those between two ways home."""
        frames = [each for each in self.said.split(_HOME)[1:-1] if "\n" in each]
        if not frames:
            return []
        return [_drawn(plain(line), self._columns) for line in frames[-1].split("\r\n")]

    def shows(self, text: str) -> bool:
        """Whether the screen has the text."""
        return any(text in line for line in self.frame())

    def wait(self) -> int:
        """The exit code, once it has ended and everything is read."""
        process = self.process
        assert process is not None
        self.until(lambda: process.poll() is not None)
        self._read(0.0)
        return process.returncode

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def is_stopped(self) -> bool:
        """Whether the program has been stopped, as by Ctrl-Z."""
        assert self.process is not None
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.theirs)
        os.close(self._ours)


def _take_terminal() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored, where the tests run in the background
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def in_terminal(
    command: Sequence[str],
    columns: int = 100,
    rows: int = 24,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """A terminal in which the command runs."""
    terminal = Terminal(columns, rows)
    try:
        terminal.start(command, {**os.environ, "TERM": "xterm-256color", **(environment or {})})
        yield terminal
    finally:
        terminal.close()
