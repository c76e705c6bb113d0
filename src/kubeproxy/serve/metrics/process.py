"""The process and the Python runtime, from /proc and the interpreter, read when somebody asks.

process_* has the names that Go programs use. There is no go_*: nothing here is Go.
"""

import asyncio
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kubeproxy.serve.metrics.families import About, Kind, Reading

_Series = Iterator[tuple[tuple[str, ...], float]]
_OWN = Path("/proc/self")
_UNLIMITED = 2.0**64


class Usage(NamedTuple):
    """What /proc/self/stat says: seconds of CPU, bytes of memory, seconds from boot to start."""

    cpu: float
    virtual: int
    resident: int
    started: float


def parse_usage(stat: str, ticks: int, page: int) -> Usage:
    """Read a line of /proc/PID/stat; the name in its parentheses may have any character."""
    fields = stat.rpartition(")")[2].split()
    return Usage(
        cpu=(int(fields[11]) + int(fields[12])) / ticks,
        virtual=int(fields[20]),
        resident=int(fields[21]) * page,
        started=int(fields[19]) / ticks,
    )


def parse_octets(netstat: str) -> tuple[int, int]:
    """The bytes received and sent, from /proc/PID/net/netstat: names, then values, in pairs."""
    lines = [line.split() for line in netstat.splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        if names[0] == "IpExt:":
            found = dict(zip(names, values, strict=True))
            return int(found["InOctets"]), int(found["OutOctets"])
    return 0, 0


def parse_boot_time(stat: str) -> int:
    """The Unix time of the boot, from /proc/stat."""
    lines = (line.split() for line in stat.splitlines())
    return next(int(words[1]) for words in lines if words[:1] == ["btime"])


def usage() -> Usage:
    """What this process uses now."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return parse_usage((_OWN / "stat").read_text(), ticks, page)


def _octets() -> tuple[int, int]:
    return parse_octets((_OWN / "net/netstat").read_text())


def start_time() -> float:
    """The Unix time at which this process started."""
    boot = parse_boot_time(Path("/proc/stat").read_text())
    return boot + usage().started


def _limit(kind: int) -> float:
    soft = resource.getrlimit(kind)[0]
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def start_family(started: float) -> Reading:
    """When this process started; /metrics/slis has it too."""
    return _gauge("process_start_time_seconds", "Unix time of the start", lambda: started)


def process_families() -> list[Reading]:
    """The process_* families but for the time of the start."""
    return [
        _counter("process_cpu_seconds_total", "Seconds of CPU time", lambda: usage().cpu),
        _gauge("process_resident_memory_bytes", "Memory in use", lambda: usage().resident),
        _gauge("process_virtual_memory_bytes", "Address space", lambda: usage().virtual),
        _gauge(
            "process_virtual_memory_max_bytes",
            "Address space that may be had",
            lambda: _limit(resource.RLIMIT_AS),
        ),
        _gauge("process_open_fds", "Open files", lambda: len(os.listdir(_OWN / "fd"))),  # noqa: PTH208  # twice as fast
        _gauge(
            "process_max_fds", "Files that may be open", lambda: _limit(resource.RLIMIT_NOFILE)
        ),
        _counter(
            "process_network_receive_bytes_total",
            "Bytes that came into this network namespace",
            lambda: _octets()[0],
        ),
        _counter(
            "process_network_transmit_bytes_total",
            "Bytes that left this network namespace",
            lambda: _octets()[1],
        ),
    ]


def python_families() -> list[Reading]:
    """The python_* families."""
    generation = ("generation",)
    version = tuple(map(str, sys.version_info[:3]))
    info = (sys.implementation.name, *version, ".".join(version))
    labels = ("implementation", "major", "minor", "patchlevel", "version")

    def of_generations(key: str) -> Callable[[], _Series]:
        return lambda: (((str(n),), each[key]) for n, each in enumerate(gc.get_stats()))

    return [
        Reading(
            About("python_info", Kind.GAUGE, "The interpreter; always 1", labels),
            lambda: iter([(info, 1)]),
        ),
        Reading(
            About("python_gc_collections_total", Kind.COUNTER, "Collections", generation),
            of_generations("collections"),
        ),
        Reading(
            About(
                "python_gc_objects_collected_total", Kind.COUNTER, "Objects collected", generation
            ),
            of_generations("collected"),
        ),
        Reading(
            About(
                "python_gc_objects_uncollectable_total",
                Kind.COUNTER,
                "Objects that could not be collected",
                generation,
            ),
            of_generations("uncollectable"),
        ),
        _gauge("python_allocated_blocks", "Blocks of memory in use", sys.getallocatedblocks),
        _gauge("python_threads", "Threads", threading.active_count),
        _gauge("python_tasks", "Tasks of the event loop", lambda: len(asyncio.all_tasks())),
    ]


def _gauge(name: str, help_: str, read: Callable[[], float]) -> Reading:
    return Reading(About(name, Kind.GAUGE, help_), lambda: (((), read()),))


def _counter(name: str, help_: str, read: Callable[[], float]) -> Reading:
    return Reading(About(name, Kind.COUNTER, help_), lambda: (((), read()),))
