"""The iptables programs of one IP family: chains, rules, and whole tables as text.

Whatever `iptables` the system has is used, as upstream does: it may be of either of the two
backends. Where only the long names are installed, they are used. The environment may say which
kind is used instead.
"""

import contextlib
import math
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import ending, find, lines_named, log_run, quoted, version_in

_STEMS = {
    Family.IPV4: ("iptables", "iptables-nft", "iptables-legacy"),
    Family.IPV6: ("ip6tables", "ip6tables-nft", "ip6tables-legacy"),
}
KIND = "KUBE_PROXY_IPTABLES"
"""The environment variable that may say which kind of programs is used, `nft` or `legacy`."""

_OLDEST = (1, 6, 2)
_WAIT = ("-w", "5")  # seconds that a program waits for another to release the lock
_SECONDS = 60.0
_BYTES_A_SECOND = 25_000  # of rules, on a busy machine
_MOST_SECONDS = 900.0  # hundreds of thousands of rules
_TURN_SECONDS = 10.0
_REMEMBERED = 10.0  # seconds after which no more notifications about a process come

_MISSING_OR_EXISTS = 1
_NO_LOCK_OR_REFUSED = 4
_ADVICE = {
    3: "the program and the kernel do not fit, or CAP_NET_ADMIN or, for iptables-legacy,"
    " CAP_NET_RAW is missing",
    _NO_LOCK_OR_REFUSED: "another program holds the lock of iptables, or the kernel refuses it:"
    " without CAP_NET_ADMIN it does",
}


class XtablesFailed(KernelError):
    """A program failed. `code` is its return code; None when it did not run to its end.

    `lines` are those of the text that it names as the cause.
    """

    def __init__(self, text: str, code: int | None = None, lines: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.code = code
        self.lines = lines

    @property
    def ended(self) -> bool:
        """Whether the program came to an end of its own: it was not killed."""
        return self.code is not None and self.code > 0


class _Turns:
    """The families' programs take turns, because those of the legacy kind share one lock.

    A large table holds it for longer than the programs wait. But one that hangs must not block
    the other family: no program waits longer than `_TURN_SECONDS` for the same one. After that
    its own wait for the lock decides.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._since = 0.0

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        left = max(0.0, self._since + _TURN_SECONDS - time.monotonic())
        is_taken = self._turn.acquire(timeout=left)
        if is_taken:
            self._since = time.monotonic()
        try:
            yield
        finally:
            if is_taken:
                self._turn.release()


_TURNS = _Turns()


class Xtables:
    """The programs of one family. They are found at each use: they may be replaced."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.restore_failures = 0
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._own: dict[int, float] = {}  # processes, and when they ended

    def is_nft(self) -> bool:
        """Whether the programs write nftables rules, of which the kernel sends notifications."""
        return "nf_tables" in self._run("", ["--version"], wait=False)

    def is_own(self, port: int) -> bool:
        """Whether a change that came through a netlink socket with that port was made here.

        The kernel gives a socket the number of the process that opens it as port, unless another
        socket has it: where a process of another container has, a change of ours counts as one of
        others. The process id in a notification cannot be used: it is the one that the process
        has outside of our container.
        """
        with self._starting:
            return port in self._own

    def check(self) -> None:
        """Raise `XtablesFailed` unless the programs are new enough and work with this kernel."""
        reason = unfit(self._run("", ["--version"], wait=False).strip())
        if reason:
            raise XtablesFailed(f"{reason}: install a newer one, or use another proxy mode")
        self._run("", ["-S", "POSTROUTING", "-t", "nat"])

    def ensure_chain(self, table: str, chain: str) -> None:
        """Make a chain; it may exist."""
        self._succeeds(["-N", chain, "-t", table])

    def has_chain(self, table: str, chain: str) -> bool:
        """Whether a chain exists."""
        return self._succeeds(["-S", chain, "-t", table])

    def ensure_rule(self, table: str, chain: str, words: Sequence[str]) -> bool:
        """Put a rule first in a chain unless it is anywhere in it; whether that was needed."""
        if self._succeeds(["-C", chain, "-t", table, *words]):
            return False
        self._run("", ["-I", chain, "-t", table, *words])
        return True

    def save(self, table: str) -> str:
        """A table as text."""
        return self._run("-save", ["-t", table], wait=False)

    def restore(self, text: str) -> None:
        """Write the tables of the text, each as a whole or not at all."""
        try:
            self._run("-restore", ["--noflush", "--counters"], text)
        except XtablesFailed:
            self.restore_failures += 1
            raise

    def _succeeds(self, arguments: Sequence[str]) -> bool:
        """False when the program says that what it checks is missing, or what it makes exists."""
        try:
            self._run("", arguments)
        except XtablesFailed as error:
            if error.code == _MISSING_OR_EXISTS:
                return False
            raise
        return True

    def _run(
        self, verb: str, arguments: Sequence[str], text: str = "", *, wait: bool = True
    ) -> str:
        program = find_program(self.family, verb)
        if program is None:
            raise XtablesFailed(
                f"{_stems(self.family)[0]}{verb} is not installed, or not in PATH: install"
                " iptables, or use another proxy mode"
            )
        command = [program, *(_WAIT if wait else ()), *arguments]
        shown = " ".join(command)
        limit = min(_SECONDS + len(text) / _BYTES_A_SECOND, _MOST_SECONDS)
        began = time.monotonic()
        try:
            with self._turn, _TURNS.taken(), self._started(command) as process:
                output, errors = process.communicate(text.encode(), limit)
        except subprocess.TimeoutExpired as error:
            raise XtablesFailed(f"{shown}: did not end within {limit:.3g} seconds") from error
        except OSError as error:
            raise XtablesFailed(f"{shown}: {error.strerror}") from error
        log_run(shown, began, process.returncode, text)
        if process.returncode:
            stderr = " ".join(errors.decode(errors="replace").split())
            named = lines_named(stderr, text)
            how = _ending(process.returncode)
            raise XtablesFailed(
                f"{shown}: {how}{f': {stderr}' if stderr else ''}{quoted(named)}",
                process.returncode,
                tuple(named.values()),
            )
        return output.decode(errors="surrogateescape")

    @contextlib.contextmanager
    def _started(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A process that is known as ours before a notification of its changes can be read."""
        pipe = subprocess.PIPE
        with self._starting:
            process = subprocess.Popen(  # noqa: S603  # no shell; a service's text is in no argument
                command, stdin=pipe, stdout=pipe, stderr=pipe
            )
            oldest = time.monotonic() - _REMEMBERED
            self._own = {pid: end for pid, end in self._own.items() if end > oldest}
            self._own[process.pid] = math.inf
        try:
            with process:
                try:
                    yield process
                except BaseException:
                    process.kill()
                    raise
        finally:
            self._own[process.pid] = time.monotonic()


def find_program(family: Family, verb: str = "") -> str | None:
    """Where `iptables` is, or with a verb `iptables-save`; None when it is not installed."""
    found = (find(stem + verb) for stem in _stems(family))
    return next((program for program in found if program is not None), None)


def _stems(family: Family) -> tuple[str, ...]:
    """What the programs may be called, the best name first."""
    kind = os.environ.get(KIND)
    wanted = tuple(stem for stem in _STEMS[family] if kind and stem.endswith(f"-{kind}"))
    return wanted or _STEMS[family]


def unfit(version_text: str) -> str:
    """Why programs of that version cannot be used; "" when they may.

    Those that name no version may: whether they work is seen when they are used.
    """
    found = version_in(version_text)
    if found is None or found >= _OLDEST:
        return ""
    return f"{version_text} is too old, 1.6.2 or later is needed: its restore waits for the lock"


def _ending(code: int) -> str:
    advice = _ADVICE.get(code)
    return f"{ending(code)} ({advice})" if advice else ending(code)
