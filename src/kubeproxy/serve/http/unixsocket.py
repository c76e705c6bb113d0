"""A Unix socket that answers root and our own user, and nobody else.

Its directory and itself are ours alone; and because permissions of files can be changed by a
careless hand, the kernel is asked who calls.
"""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.serve.http.answer import Page
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.http.room import Limits, Room
from kubeproxy.serve.http.server import Port

_BACKLOG = 64
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def is_admitted(client: socket.socket) -> bool:
    """Whether the caller is root or our own user."""
    raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] in {0, os.geteuid()}


async def serve_unix(path: str, page: Page) -> None:
    """Answer at the path until cancelled; the file goes with us.

    Where that is not possible, because another process answers there or the directory cannot be
    had, it is said once: no traffic depends on it.
    """
    try:
        listening = listen_unix(path)
    except ListenError as error:
        klog.warning("The status socket cannot be opened, going on without", err=error)
        return
    klog.info("Serving status", v=3, socket=path)
    mine = _identity(path)
    try:
        async with asyncio.TaskGroup() as tasks:
            opened = Port((listening,), page, Room(Limits(connections=64)), tasks, is_admitted)
            try:
                await asyncio.Event().wait()
            finally:
                opened.close()
    finally:
        if _identity(path) == mine:  # else somebody has put another there
            _remove(path)


def listen_unix(path: str) -> socket.socket:
    """A socket that listens at the path; what a process left there that is no more is replaced."""
    with _saying(path):
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_left_over(path):
            Path(path).unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            before = os.umask(0o177)
            try:
                made.bind(path)
            finally:
                os.umask(before)
            made.listen(_BACKLOG)
        except OSError:
            made.close()
            raise
        return made


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()


def _is_left_over(path: str) -> bool:
    """Whether there is a socket that nobody answers."""
    if not Path(path).is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        return caller.connect_ex(path) == errno.ECONNREFUSED


@contextlib.contextmanager
def _saying(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another process has it, or it is no socket"
        raise ListenError(
            f"{path}: {reason}; give this process a path of its own (statusSocket,"
            " --status-socket)"
        ) from error
