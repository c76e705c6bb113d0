"""The iptables programs of one IP family: chains, rules, and whole tables as text.

Whatever `iptables` the system has is used, as upstream does: it may speak to either of the two
backends. Where only the long names are installed, they serve.
"""

import re
import signal
import subprocess
import threading
from collections.abc import Sequence

from kubeproxy.errors import KernelError
from kubeproxy.inet import Family
from kubeproxy.kernel.tools import find

_STEMS = {
    Family.IPV4: ("iptables", "iptables-nft", "iptables-legacy"),
    Family.IPV6: ("ip6tables", "ip6tables-nft", "ip6tables-legacy"),
}
_WAIT = ("-w", "5")  # seconds that a program waits for another to let go of the lock
_SECONDS = 60.0
_RESTORE_SECONDS = 900.0  # hundreds of thousands of rules, on a busy machine
_LINE = re.compile(r"\bline:? (\d+)")
_MOST_LINES = 5

# The families have one lock between them, and a large table holds it longer than others wait.
_TURN = threading.Lock()

_IS_NOT_THERE = 1
_NO_LOCK_OR_REFUSED = 4
_WHAT_TO_DO = {
    3: "the program and the kernel do not fit, or CAP_NET_ADMIN or, for iptables-legacy,"
    " CAP_NET_RAW is missing",
    _NO_LOCK_OR_REFUSED: "another program holds the lock of iptables, or the kernel refuses it:"
    " without CAP_NET_ADMIN it does",
}


class XtablesFailed(KernelError):
    """A program failed. `code` is its exit code; None when it did not run to its end."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Xtables:
    """The programs of one family. They are looked for at each use: they may come and go."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.restore_failures = 0

    def check(self) -> None:
        """Raise `XtablesFailed` unless the programs work with this kernel."""
        self._run("", ["-S", "POSTROUTING", "-t", "nat"])

    def ensure_chain(self, table: str, chain: str) -> None:
        """Make a chain; it may be there."""
        try:
            self._run("", ["-N", chain, "-t", table])
        except XtablesFailed as error:
            if error.code != _IS_NOT_THERE:  # which here means that it exists
                raise

    def has_chain(self, table: str, chain: str) -> bool:
        """Whether a chain is there."""
        return self._is_there(["-S", chain, "-t", table])

    def ensure_rule(self, table: str, chain: str, words: Sequence[str]) -> bool:
        """Put a rule first in a chain unless it is anywhere in it; whether that was needed."""
        if self._is_there(["-C", chain, "-t", table, *words]):
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

    def _is_there(self, arguments: Sequence[str]) -> bool:
        try:
            self._run("", arguments)
        except XtablesFailed as error:
            if error.code == _IS_NOT_THERE:
                return False
            raise
        return True

    def _run(
        self, verb: str, arguments: Sequence[str], text: str = "", *, wait: bool = True
    ) -> str:
        command = [self._program(verb), *(_WAIT if wait else ()), *arguments]
        shown = " ".join(command)
        limit = _RESTORE_SECONDS if text else _SECONDS
        try:
            with _TURN:
                done = subprocess.run(  # noqa: S603  # no shell; a service's text is in no argument
                    command, input=text.encode(), capture_output=True, timeout=limit, check=False
                )
        except subprocess.TimeoutExpired as error:
            raise XtablesFailed(f"{shown}: did not end within {limit:g} seconds") from error
        except OSError as error:
            raise XtablesFailed(f"{shown}: {error.strerror}") from error
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())
            raise XtablesFailed(
                f"{shown}: {_ending(done.returncode)}{f': {said}' if said else ''}"
                f"{quoted(said, text)}",
                done.returncode,
            )
        return done.stdout.decode(errors="surrogateescape")

    def _program(self, verb: str) -> str:
        program = find_program(self.family, verb)
        if program is not None:
            return program
        raise XtablesFailed(
            f"{_STEMS[self.family][0]}{verb} is not installed, or not in PATH: install iptables,"
            " or use another proxy mode"
        )


def find_program(family: Family, verb: str = "") -> str | None:
    """Where `iptables` is, or with a verb `iptables-save`; None when it is not installed."""
    found = (find(stem + verb) for stem in _STEMS[family])
    return next((program for program in found if program is not None), None)


def quoted(said: str, text: str) -> str:
    """The lines of the text that a program complains about by their numbers."""
    lines = text.split("\n")
    numbers = dict.fromkeys(int(number) for number in _LINE.findall(said))
    found = [number for number in numbers if 0 < number <= len(lines)][:_MOST_LINES]
    return "".join(f"; line {number} is: {lines[number - 1]}" for number in found)


def _ending(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    advice = _WHAT_TO_DO.get(code)
    return f"exit code {code} ({advice})" if advice else f"exit code {code}"
