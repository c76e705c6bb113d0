"""Network namespaces of our own, for a thread that enters them: what it opens there stays there.

Other threads never leave the namespace of the process.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from kubeproxy.base.errors import KernelError

T = TypeVar("T")

_CLONE_NEWNET: Final = 0x40000000
_CURRENT: Final = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A new network namespace, without anything in it; the thread that makes it stays outside."""

    def __init__(self) -> None:
        home = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.unshare(_CLONE_NEWNET), "make a network namespace")
            self._fd = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
            _enter(home)
        finally:
            os.close(home)

    def fileno(self) -> int:
        """For messages that name it."""
        return self._fd

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, what this thread opens is in the namespace."""
        with _returning():
            _enter(self._fd)
            yield

    def close(self) -> None:
        """Let go of it: it ends with the last socket inside."""
        os.close(self._fd)


def in_thread(work: Callable[[], T]) -> T:
    """Do the work in a thread that ends with it; wait for its result, or its exception."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def _returning() -> Iterator[None]:
    home = os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        try:
            _enter(home)
        finally:
            os.close(home)


def _enter(fd: int) -> None:
    _check(_libc.setns(fd, _CLONE_NEWNET), "enter a network namespace")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise KernelError(f"cannot {what}: {os.strerror(number)} (that needs CAP_SYS_ADMIN)")
