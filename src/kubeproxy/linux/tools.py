"""The system's own programs: find them, run them, and report why they failed."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import islice

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError

# Enough for tables with hundreds of thousands of rules.
TIME_LIMIT = 120.0
_VERSION = re.compile(r"\bv(\d+(?:\.\d+)+)")
_LINE = re.compile(r"\bline:? (\d+)")
_MOST_LINES = 5
_NFT_RULE = re.compile(r"^\s*(.+) # handle (\d+)$", re.MULTILINE)
_ELSEWHERE = "/usr/sbin:/sbin"  # what a PATH that is made for users lacks


class ToolFailed(KernelError):
    """A program could not be run, or failed; `stderr` is what it wrote there.

    `ended` is false when it was killed: because of its time limit, or by another.
    """

    def __init__(self, text: str, stderr: str = "", *, ended: bool = True) -> None:
        super().__init__(text)
        self.stderr = stderr
        self.ended = ended


class RuleKind(Enum):
    """The two kinds of rules in the kernel that the iptables programs write."""

    LEGACY = "legacy"
    NFT = "nft"


def find(name: str) -> str | None:
    """Where the program is; None when it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_ELSEWHERE}")


def find_iptables(program: str, backend: RuleKind) -> str | None:
    """What to run for `iptables-save` and the like of that backend."""
    stem, _, verb = program.partition("-")
    explicit = find(f"{stem}-{backend.value}-{verb}")
    if explicit is not None:
        return explicit
    plain = find(program)
    if plain is None:
        return None
    # Releases before there were two backends name none, and only `iptables` prints its version.
    is_nft = "nf_tables" in run([find(stem) or plain, "--version"])
    return plain if is_nft == (backend is RuleKind.NFT) else None


def version_in(text: str) -> tuple[int, ...] | None:
    """The version that a program prints as v1.8.9; None when it prints none."""
    named = _VERSION.search(text)
    return tuple(map(int, named[1].split("."))) if named else None


def run(command: Sequence[str], stdin: str = "", seconds: float = TIME_LIMIT) -> str:
    """What the program prints; `ToolFailed` when it fails, or does not end.

    Bytes that are no UTF-8 come through unharmed, also from one program to the next.
    """
    shown = " ".join(command)
    began = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and nothing of it comes from outside
            command,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        why = f"{shown}: did not end within {seconds:g} seconds"
        raise ToolFailed(why, ended=False) from error
    except OSError as error:
        raise ToolFailed(f"{shown}: {error.strerror}") from error
    log_run(shown, began, done.returncode, stdin)
    if done.returncode:
        stderr = " ".join(done.stderr.split())
        reason = stderr or "no output on stderr"
        why = f"{shown}: {ending(done.returncode)}: {reason}"
        raise ToolFailed(why, stderr, ended=done.returncode > 0)
    return done.stdout


def log_run(shown: str, began: float, code: int, stdin: str = "") -> None:
    """Log that a program was run, at -v=4; what it was given to read at -v=9."""
    seconds = round(time.monotonic() - began, 6)
    klog.info("Ran a program", v=4, command=shown, seconds=seconds, exitCode=code)
    if stdin:
        klog.info("Its input was", v=9, command=shown, input=stdin)


def ending(code: int) -> str:
    """How a process ended, by the return code that Python gives it."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def lines_named(stderr: str, text: str) -> dict[int, str]:
    """The lines of the text that a program names by their numbers."""
    lines = text.split("\n")
    numbers = dict.fromkeys(int(number) for number in _LINE.findall(stderr))
    return {number: lines[number - 1] for number in numbers if 0 < number <= len(lines)}


def quoted(named: Mapping[int, str]) -> str:
    """The first few of these lines, for an error."""
    shown = islice(named.items(), _MOST_LINES)
    return "".join(f"; line {number} is: {line}" for number, line in shown)


def rule_texts(family: str, table: str) -> dict[int, str]:
    """The rules of a table as `nft` prints them, by their handles; none when it cannot."""
    program = find("nft")
    if program is None:
        return {}
    try:
        listed = run([program, "-a", "-t", "list", "table", family, table])
    except ToolFailed:
        return {}
    return {int(handle): text for text, handle in _NFT_RULE.findall(listed)}
