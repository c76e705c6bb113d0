"""CPU and memory of processes, from /proc, so that it is the same for all proxies."""

import os
import resource
from pathlib import Path

import msgspec

_TICK = os.sysconf("SC_CLK_TCK")
_UTIME = 11  # the position behind the name in /proc/PID/stat; then stime, cutime, cstime


class Memory(msgspec.Struct, frozen=True):
    """In megabytes: resident now and at most, and now with its share of what others have too."""

    resident: float
    peak: float
    proportional: float


def parse_cpu(stat: str) -> float:
    """CPU seconds in /proc/PID/stat: its own, and those of children that it has waited for."""
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[_UTIME : _UTIME + 4])) / _TICK


def parse_kilobytes(status: str, field: str) -> float:
    """A field of /proc/PID/status or smaps_rollup, in megabytes."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    raise ValueError(f"the kernel does not report {field}")


def cpu_seconds(pid: int) -> float:
    """All CPU time that a process and the programs that it runs or ran have used."""
    own = parse_cpu(Path(f"/proc/{pid}/stat").read_text())
    return own + sum(_cpu_of_child(child) for child in _children(pid))


def _cpu_of_child(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except (FileNotFoundError, ProcessLookupError):  # it has ended, and its parent counts it
        return 0.0


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in _read(task).split()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
        return ""


def memory(pid: int) -> Memory:
    """The memory of a process, without its children."""
    status = Path(f"/proc/{pid}/status").read_text()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return Memory(
        parse_kilobytes(status, "VmRSS"),
        parse_kilobytes(status, "VmHWM"),
        parse_kilobytes(rollup, "Pss"),
    )


def resident() -> float:
    """Resident memory of this process, in megabytes."""
    return parse_kilobytes(Path("/proc/self/status").read_text(), "VmRSS")


def peak() -> float:
    """The most resident memory that this process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
