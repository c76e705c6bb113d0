"""Network and mount namespaces, made and entered by the calling thread.

A socket belongs to the namespace in which it was made, for ever: one process that steps into each
namespace in turn can own sockets in all of them. Programs started inside inherit the namespace.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_BIND = 1 << 12
MS_REC = 1 << 14
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

NAMES = Path("/run/netns")
_CURRENT = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class Refused(OSError):
    """The kernel did not let us; says what was tried."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(number, f"{what}: {os.strerror(number)}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise Refused(what, ctypes.get_errno())


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones."""
    _check(_libc.unshare(flags), "unshare")


def mount(
    source: str, target: Path, kind: str | None, flags: int = 0, data: str | None = None
) -> None:
    """The system call."""
    type_ = kind.encode() if kind else None
    options = data.encode() if data else None
    result = _libc.mount(source.encode(), bytes(target), type_, flags, options)
    _check(result, f"mount on {target}")


def private_mounts() -> None:
    """Mounts of our own, with an empty /run: what lies there names network namespaces and locks.

    For a process that has a mount namespace of its own.
    """
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    mount("lab", Path("/run"), "tmpfs")
    NAMES.mkdir()


class Namespace:
    """A network namespace, also known to `ip netns` by its name while it is open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = NAMES / name
        home = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            unshare(CLONE_NEWNET)
            self._fd = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
            self.path.touch()
            mount(_CURRENT, self.path, None, MS_BIND)
            _enter(home)
        finally:
            os.close(home)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, this thread opens sockets and starts programs in the namespace."""
        with _switched(self._fd):
            yield

    def run(self, command: Sequence[str], stdin: str = "") -> str:
        """What a program that runs inside prints; one that fails is an error with its words."""
        with self.entered():
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, check=False
            )
        if done.returncode:
            raise AssertionError(
                f"{self.name}: {' '.join(command)} ended with {done.returncode}: {done.stderr}"
            )
        return done.stdout

    def sysctl(self, settings: Sequence[tuple[str, str]]) -> None:
        """Set what lies under /proc/sys/net."""
        with self.entered():
            for key, value in settings:
                Path("/proc/sys/net", key).write_text(value)

    def close(self) -> None:
        """Let go of it: it ends with the last process and socket inside."""
        _check(_libc.umount2(bytes(self.path), MNT_DETACH), f"umount {self.path}")
        self.path.unlink()
        os.close(self._fd)


@contextlib.contextmanager
def entered(path: Path) -> Iterator[None]:
    """As the method, for a namespace that another process made."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _switched(fd):
            yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _switched(fd: int) -> Iterator[None]:
    home = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
    _enter(fd)
    try:
        yield
    finally:
        _enter(home)
        os.close(home)


def _enter(fd: int) -> None:
    _check(_libc.setns(fd, CLONE_NEWNET), "setns")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send us the signal when our parent ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Have those whose parent ends become our children, to be waited for, and not the system's."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
