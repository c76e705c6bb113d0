"""The system's own programs: find them, run them, and hear why they failed."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from enum import Enum

from kubeproxy.base.errors import KernelError

# Enough for tables with hundreds of thousands of rules.
TIME_LIMIT = 120.0
_VERSION = re.compile(r"\bv(\d+(?:\.\d+)+)")
_ELSEWHERE = "/usr/sbin:/sbin"  # what a PATH that is made for users lacks


class ToolFailed(KernelError):
    """A program could not be run, or says that it failed; `said` are its own words."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class Backend(Enum):
    """The two tables of rules in the kernel that go by the name of iptables."""

    LEGACY = "legacy"
    NFT = "nft"


def find(name: str) -> str | None:
    """Where the program is; None when it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_ELSEWHERE}")


def find_iptables(program: str, backend: Backend) -> str | None:
    """What to run for `iptables-save` and the like so that it speaks of that backend."""
    stem, _, verb = program.partition("-")
    explicit = find(f"{stem}-{backend.value}-{verb}")
    if explicit is not None:
        return explicit
    plain = find(program)
    if plain is None:
        return None
    # Releases before there were two backends name none, and only `iptables` tells its version.
    is_nft = "nf_tables" in run([find(stem) or plain, "--version"])
    return plain if is_nft == (backend is Backend.NFT) else None


def version_in(said: str) -> tuple[int, ...] | None:
    """The version that a program names as v1.8.9; None when it names none."""
    named = _VERSION.search(said)
    return tuple(map(int, named[1].split("."))) if named else None


def run(command: Sequence[str], stdin: str = "", seconds: float = TIME_LIMIT) -> str:
    """What the program prints; `ToolFailed` with its own words when it ends badly or not at all.

    Bytes that are no UTF-8 come through unharmed, also from one program to the next.
    """
    shown = " ".join(command)
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
        raise ToolFailed(f"{shown}: did not end within {seconds:g} seconds") from error
    except OSError as error:
        raise ToolFailed(f"{shown}: {error.strerror}") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or "no word why"
        raise ToolFailed(f"{shown}: exit code {done.returncode}: {said}", said)
    return done.stdout
