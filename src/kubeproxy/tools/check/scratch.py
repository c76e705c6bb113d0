"""Tries things in a network namespace of their own, which is gone when they are done.

A forked child enters a new network namespace, tries, and leaves its findings in memory that it
shares with its parent. What it writes, it writes there: the node's own rules, devices and settings
are never touched. A child that breaks or hangs has no result, and the reason is kept. It ends when
its parent is gone.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from kubeproxy.dataplane.preflight import Finding
from kubeproxy.linux.tools import ending
from kubeproxy.tools.check.host import own_rights

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_MS_REC = 1 << 14
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1

# Where iptables keeps its lock: the child's is its own, so that it delays no other.
_LOCKS = Path("/run")

# Seconds until the first report that trials are under way; the pauses between reports double.
_FIRST_REPORT = 5.0
# Seconds for the kernel to end a process that was killed: one that waits for a device never ends.
_KILL_SECONDS = 5.0

Trial = Callable[[], Sequence[Finding]]

_libc = ctypes.CDLL(None, use_errno=True)


class TrialResult(msgspec.Struct, frozen=True):
    """What a child leaves: its findings, or why there is no namespace for it."""

    findings: tuple[Finding, ...] = ()
    refused: str = ""


class Broken(msgspec.Struct, frozen=True):
    """Why a child left no result; `slow` when it was still at work."""

    why: str
    slow: bool = False


class Child:
    """A trial under way in a process of its own."""

    def __init__(self, trial: Trial) -> None:
        self._answer = os.memfd_create("answer")
        self._complaint = os.memfd_create("complaint")
        self._ended, alive = os.pipe()  # the other end closes with the child
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            for descriptor in (self._answer, self._complaint, self._ended, alive):
                os.close(descriptor)
            raise
        if not self.pid:
            _run(partial(_tried, trial, parent), self._answer, self._complaint)
        os.close(alive)

    def fileno(self) -> int:
        """What can be read when the child has ended."""
        return self._ended

    def outcome(self, deadline: float) -> TrialResult | Broken:
        """Wait for the child, up to that moment of the monotonic clock; then it is ended."""
        try:
            in_time = self._ends_within(deadline - time.monotonic())
        finally:
            code = self._end()
            answer, complaint = _content(self._answer), _content(self._complaint)
        if not in_time:
            return Broken("it did not end in time", slow=True)
        try:
            return msgspec.json.decode(answer, type=TrialResult)
        except msgspec.DecodeError:
            lines = complaint.decode(errors="replace").strip().splitlines()
            return Broken(f"it failed: {lines[-1] if lines else ending(code)}")

    def _ends_within(self, seconds: float) -> bool:
        return bool(select.select([self], [], [], max(0.0, seconds))[0])

    def _end(self) -> int:
        """See to it that nothing of the child is left, nor of the programs that it runs.

        Its return code comes back.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # before it had its own group
        status = signal.SIGKILL.value
        if self._ends_within(_KILL_SECONDS):
            _, status = os.waitpid(self.pid, 0)
        os.close(self._ended)
        return os.waitstatus_to_exitcode(status)


def start(trial: Trial) -> Child | Broken:
    """Start a trial, where the system has room for one more process."""
    try:
        return Child(trial)
    except OSError as error:
        return Broken(f"no process can be started for it: {error.strerror}")


def outcomes(
    trials: Mapping[str, Child | Broken],
    seconds: float,
    report: Callable[[Collection[str]], None],
) -> dict[str, TrialResult | Broken]:
    """Wait for all trials, so long at most; those that take long are reported now and then."""
    deadline = time.monotonic() + seconds
    running = {name: child for name, child in trials.items() if isinstance(child, Child)}
    pause = _FIRST_REPORT
    while running and (remaining := deadline - time.monotonic()) > 0:
        ended = select.select(running.values(), [], [], min(pause, remaining))[0]
        running = {name: child for name, child in running.items() if child not in ended}
        if not ended and remaining > pause:
            report(running)
            pause *= 2
    return {
        name: child if isinstance(child, Broken) else child.outcome(deadline)
        for name, child in trials.items()
    }


def _content(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def _run(attempt: Callable[[], TrialResult], answer: int, complaint: int) -> NoReturn:
    """Be the child. Whatever happens, it ends here, without the parent's clean-up."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(complaint, 1)
        os.dup2(complaint, 2)
        os.write(answer, msgspec.json.encode(attempt()))
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
    if not own_rights().administers:
        return TrialResult(refused="nothing in it may be changed")
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
