"""How kube-proxy is started: as the program that it is, unless somebody has a quicker way."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
SECONDS = 120.0
_DAEMON = """
import signal, sys
from lab.namespaces import die_with_parent
die_with_parent(signal.SIGKILL)
from kubeproxy.app.cli import main
sys.exit(main())
"""


class Started(Protocol):
    """A process; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; `subprocess.TimeoutExpired` when it does not end in time."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""
        ...


class Ran(NamedTuple):
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines of the answer."""
        return self.out.replace("\r\n", "\n").splitlines()


class Launcher(Protocol):
    """A way to start it, with these arguments and this environment."""

    def daemon(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int
    ) -> Started:
        """Start one that ends with us, and writes its log to that descriptor."""
        ...

    def tool(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ran:
        """Run one to its end."""
        ...


class Program:
    """Starts the program; `through` is a command that does it, in surroundings of its making."""

    def __init__(self, through: Sequence[str] = ()) -> None:
        self._through = through

    def daemon(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int
    ) -> Started:
        """As a process of its own."""
        command = [*self._through, sys.executable, "-c", _DAEMON, *arguments]
        return subprocess.Popen(command, stderr=log, env=environment)

    def tool(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ran:
        """As people start it at the end of a pipe."""
        done = subprocess.run(
            [*self._through, *KUBE_PROXY, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


_usual: list[Launcher] = [Program()]


def launcher(through: Sequence[str] = ()) -> Launcher:
    """The way in use; with a command to start it through, always the program itself."""
    return Program(through) if through else _usual[-1]


@contextlib.contextmanager
def launched_by(way: Launcher) -> Iterator[None]:
    """Inside, it is started that way."""
    _usual.append(way)
    try:
        yield
    finally:
        _usual.pop()
