"""The machine and the code that were measured."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
_CORES = os.cpu_count() or 1
_CALM = 0.9
"""The share of the processors that has nothing to do on a calm machine."""


class Machine(msgspec.Struct, frozen=True):
    """What the figures depend on beside the code."""

    processor: str
    cores: int
    memory_gb: float
    kernel: str
    python: str
    privileged: bool
    """Whether sockets could have the buffers that root of a node gets."""
    load: float
    """How busy the machine was before the first run."""


class Code(msgspec.Struct, frozen=True):
    """What was measured."""

    commit: str
    fingerprint: str
    """A hash of all source files: whether the code has changed since."""
    is_modified: bool
    """Whether there were changes that the commit does not have."""


def this_machine(*, privileged: bool) -> Machine:
    """The machine that this runs on."""
    return Machine(
        processor=_field("/proc/cpuinfo", "model name") or os.uname().machine,
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(int((_field("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20, 1),
        kernel=os.uname().release,
        python=sys.version.split()[0],
        privileged=privileged,
        load=os.getloadavg()[0],
    )


def wait_calm(within: float = 120.0) -> float:
    """Wait until the machine has been idle for a second, or no longer; how many seconds it took.

    The kernel goes on cleaning up after the proxy before, which may have left much behind.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < within:
        before = _idle_seconds()
        time.sleep(1)
        if _idle_seconds() - before > _CALM * _CORES:
            break
    return waited


def parse_idle(stat: str) -> float:
    """Seconds that all processors together have had nothing to do, in /proc/stat."""
    return int(stat.split(maxsplit=5)[4]) / os.sysconf("SC_CLK_TCK")


def _idle_seconds() -> float:
    return parse_idle(Path("/proc/stat").read_text())


def this_code() -> Code:
    """The code as it is in the work tree."""
    return Code(
        commit=_git("rev-parse", "--short=12", "HEAD") or "unknown",
        fingerprint=fingerprint(ROOT / "src"),
        is_modified=bool(_git("status", "--porcelain", "--", "src")),
    )


def fingerprint(directory: Path) -> str:
    """A number that changes with the Python files below a directory."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*.py")):
        digest.update(f"{path.relative_to(directory)}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def version_of(binary: str) -> str:
    """What a kube-proxy says that it is."""
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("Kubernetes ")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # a copy without history
        return ""
    return done.stdout.strip()


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
