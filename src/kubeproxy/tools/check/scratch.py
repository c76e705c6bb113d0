"""Tries things in a network namespace of their own, which is gone when they are done.

A forked child enters a new network namespace, tries, and sends its findings over a pipe. What
it writes, it writes there: the node's own rules, devices and settings are never touched. A child
that breaks or hangs is a finding too, and one whose parent is gone ends.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from kubeproxy.dataplane.preflight import Finding

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_MS_REC = 1 << 14
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1

# Where iptables keeps its lock: the child's is its own, so that it delays no other.
_LOCKS = Path("/run")

Trial = Callable[[], Sequence[Finding]]

_CHUNK = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class TrialResult(msgspec.Struct, frozen=True):
    """What a child sends: its findings, or why there is no namespace for it."""

    findings: tuple[Finding, ...] = ()
    refused: str = ""


class Broken(msgspec.Struct, frozen=True):
    """Why a child sent nothing."""

    why: str


_encode = msgspec.json.encode
_decoder = msgspec.json.Decoder(TrialResult)


class Child:
    """A trial under way in a process of its own."""

    def __init__(self, trial: Trial) -> None:
        self._answer, answer = os.pipe()
        self._complaint, complaint = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            _run(partial(_tried, trial, parent), answer, complaint)
        os.close(answer)
        os.close(complaint)

    def outcome(self, deadline: float) -> TrialResult | Broken:
        """Wait for the child, up to that moment of the monotonic clock; then it is ended."""
        said = {self._answer: b"", self._complaint: b""}
        try:
            in_time = _read(said, deadline)
        finally:
            self._end()
        if not in_time:
            return Broken("it did not end in time, and was ended")
        try:
            return _decoder.decode(said[self._answer])
        except msgspec.DecodeError:
            lines = said[self._complaint].decode(errors="replace").strip().splitlines()
            return Broken(f"it failed: {lines[-1] if lines else 'no output on stderr'}")

    def _end(self) -> None:
        """See to it that nothing of the child is left, nor of the programs that it runs."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # before it had its own group
        os.waitpid(self._pid, 0)
        os.close(self._answer)
        os.close(self._complaint)


def _read(said: dict[int, bytes], deadline: float) -> bool:
    """Read until all are at their end; False when the time is over before."""
    waiting = set(said)
    while waiting:
        remaining = deadline - time.monotonic()
        ready = select.select(list(waiting), [], [], max(0.0, remaining))[0]
        if not ready:
            return False
        for fd in ready:
            chunk = os.read(fd, _CHUNK)
            said[fd] += chunk
            if not chunk:
                waiting.discard(fd)
    return True


def _run(attempt: Callable[[], TrialResult], answer: int, complaint: int) -> NoReturn:
    """Be the child. Whatever happens, it ends here, without the parent's clean-up."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(complaint, 1)
        os.dup2(complaint, 2)
        os.close(complaint)
        _write(answer, _encode(attempt()))
        code = 0
    except BaseException as error:  # noqa: BLE001  # nothing above it would report
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _tried(trial: Trial, parent: int) -> TrialResult:
    try:
        enter()
    except OSError as error:
        return TrialResult(refused=error.strerror or str(error))
    _end_with(parent)
    return TrialResult(tuple(trial()))


def _end_with(parent: int) -> None:
    """End with the parent, however that ends, and have the programs that run here end too.

    Ctrl-C does not reach a process group of its own. A new user namespace would undo this.
    """
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.killpg(0, signal.SIGKILL)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def enter() -> None:
    """Leave for a network namespace without anything in it; OSError when that is not allowed.

    Without the right to that, in a user namespace, in which this process is root.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWNET | CLONE_NEWNS)
    except PermissionError:
        _unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)
        proc = Path("/proc/self")
        (proc / "setgroups").write_text("deny")
        (proc / "uid_map").write_text(f"0 {uid} 1")
        (proc / "gid_map").write_text(f"0 {gid} 1")
    _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    links = {path: path.readlink() for path in _LOCKS.glob("*") if path.is_symlink()}
    if _libc.mount(b"scratch", bytes(_LOCKS), b"tmpfs", 0, None):
        os.environ["XTABLES_LOCKFILE"] = os.devnull
        return
    for path, target in links.items():  # NixOS has its programs behind /run/current-system
        path.symlink_to(target)


def _unshare(flags: int) -> None:
    if _libc.unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
