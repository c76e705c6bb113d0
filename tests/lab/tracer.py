"""`kube-proxy trace` as people start it, on kestrel: in a terminal or at the end of a pipe."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from lab.namespaces import Namespace

PROGRAM = (sys.executable, "-m", "kubeproxy")
SECONDS = 30.0
_TESTS = Path(__file__).parents[1]


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    """A connection as `-o json` prints it."""

    time: str
    ip_family: str
    protocol: str
    service_port: str
    client: str
    frontend: str
    destination: str
    endpoint: str | None
    node: str
    on_this_node: bool | None
    source_rewritten_to: str | None
    failure: str = ""
    times: int = 1
    outcome: str = ""
    reason: str = ""
    why: str = ""


class Tracer:
    """A trace that runs; it listens when this is made. What it says comes as it is written."""

    def __init__(
        self,
        node: Namespace,
        *arguments: str,
        terminal: bool = False,
        columns: int = 0,
        through: Sequence[str] = (),
    ) -> None:
        reading, writing = pty.openpty() if terminal else os.pipe()
        if terminal:
            termios.tcsetwinsize(writing, (24, columns))
        self._reading = reading
        self.said = ""
        # With a terminal of its own, Ctrl-C reaches it.
        before = ("setsid", "--ctty", *through) if terminal else through
        with node.entered():
            self._process = subprocess.Popen(
                [*before, *PROGRAM, "trace", *arguments],
                stdin=writing if terminal else subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env={
                    **os.environ,
                    "TERM": "xterm",
                    "PYTHONPATH": str(_TESTS),
                    "PYTHONWARNINGS": "error",
                },
            )
        os.close(writing)
        self._node = node
        self.wait(self._is_listening)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._reading)

    @property
    def lines(self) -> list[str]:
        """All that it has said."""
        return self.said.replace("\r\n", "\n").splitlines()

    @property
    def connections(self) -> list[Seen]:
        """What it has printed as JSON."""
        printed = (line for line in self.lines if line.startswith("{"))
        return [msgspec.convert(json.loads(line), Seen) for line in printed]

    def wait(self, condition: Callable[[], bool]) -> None:
        """Read until something is true, or fail."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            self._read(0.01)
            assert time.monotonic() < deadline, f"it never came to pass; said:\n{self.said}"

    def wait_lines(self, count: int) -> None:
        """Read until it has said so many lines."""
        self.wait(lambda: self.said.count("\n") >= count)

    def wait_for(self, count: int) -> list[Seen]:
        """The first so many connections, as JSON printed them; more are an error."""
        self.wait(lambda: len(self.connections) >= count)
        found = self.connections
        assert len(found) == count, self.said
        return found

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, it does nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def press_ctrl_c(self) -> int:
        """End it as Ctrl-C in a terminal does; the exit code."""
        os.write(self._reading, b"\x03")
        return self.end()

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """End it by a signal; the exit code."""
        self._process.send_signal(number)
        return self.end()

    def hang_up(self) -> int:
        """Read no more of it; the exit code."""
        os.close(self._reading)
        self._reading = os.open(os.devnull, os.O_RDONLY)
        return self._process.wait(SECONDS)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        self.wait(lambda: self._process.poll() is not None)
        self._read(0.1)
        return self._process.returncode

    def _read(self, seconds: float) -> None:
        while select.select([self._reading], [], [], seconds)[0]:
            try:
                data = os.read(self._reading, 1 << 16)
            except OSError:  # how a terminal that is closed looks
                return
            if not data:
                time.sleep(seconds)
                return
            self.said += data.decode()

    def _is_listening(self) -> bool:
        """Whether its socket has joined the group of new connections, or it has given up."""
        if self._process.poll() is not None:
            return True
        with self._node.entered():
            table = Path("/proc/thread-self/net/netlink").read_text()
        sockets = (line.split() for line in table.splitlines()[1:])
        ours = (fields for fields in sockets if fields[1] == "12" and fields[9] in self._inodes())
        return any(int(fields[3], 16) & 1 for fields in ours)

    def _inodes(self) -> set[str]:
        """Those of its sockets."""
        found = set()
        for each in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
        return found
