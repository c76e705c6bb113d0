"""The process, the Python runtime and this program: from /proc, the interpreter and its gates.

process_* has the names that Go programs use. There is no go_*: nothing here is Go.
"""

import asyncio
import gc
import os
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.gates import GATES, Gates, GateStage
from kubeproxy.serve.metrics.families import Kind, Reading, Series, reading
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.zpages import python_version

_OWN = Path("/proc/self")
_UNLIMITED = 2.0**64
_STAGE = {
    GateStage.ALPHA: "ALPHA",
    GateStage.BETA: "BETA",
    GateStage.GA: "",
    GateStage.DEPRECATED: "DEPRECATED",
}
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


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
    help_ = "Unix time of the start"
    return reading("process_start_time_seconds", Kind.GAUGE, help_, lambda: started)


def process_families() -> list[Reading]:
    """The process_* families but for the time of the start."""
    gauge, counter = Kind.GAUGE, Kind.COUNTER

    def open_files() -> int:
        return len(os.listdir(_OWN / "fd"))  # noqa: PTH208  # twice as fast

    return [
        reading(f"process_{name}", kind, help_, read)
        for name, kind, help_, read in (
            ("cpu_seconds_total", counter, "Seconds of CPU time", lambda: usage().cpu),
            ("resident_memory_bytes", gauge, "Memory in use", lambda: usage().resident),
            ("virtual_memory_bytes", gauge, "Address space", lambda: usage().virtual),
            (
                "virtual_memory_max_bytes",
                gauge,
                "Limit of the address space",
                lambda: _limit(resource.RLIMIT_AS),
            ),
            ("open_fds", gauge, "Open files", open_files),
            ("max_fds", gauge, "Limit of open files", lambda: _limit(resource.RLIMIT_NOFILE)),
            (
                "network_receive_bytes_total",
                counter,
                "Bytes received in this network namespace",
                lambda: _octets()[0],
            ),
            (
                "network_transmit_bytes_total",
                counter,
                "Bytes sent from this network namespace",
                lambda: _octets()[1],
            ),
        )
    ]


def python_families() -> list[Reading]:
    """The python_* families."""
    version = tuple(map(str, sys.version_info[:3]))
    info = (sys.implementation.name, *version, ".".join(version))
    labels = ("implementation", "major", "minor", "patchlevel", "version")

    def collected(name: str, help_: str, key: str) -> Reading:
        def read() -> Iterator[Series]:
            return (((str(n),), each[key]) for n, each in enumerate(gc.get_stats()))

        return reading(f"python_gc_{name}_total", Kind.COUNTER, help_, read, "generation")

    def gauge(name: str, help_: str, read: Callable[[], float]) -> Reading:
        return reading(f"python_{name}", Kind.GAUGE, help_, read)

    return [
        reading(
            "python_info", Kind.GAUGE, "The interpreter; always 1", lambda: [(info, 1)], *labels
        ),
        collected("collections", "Collections", "collections"),
        collected("objects_collected", "Objects collected", "collected"),
        collected("objects_uncollectable", "Objects that could not be collected", "uncollectable"),
        gauge("allocated_blocks", "Blocks of memory in use", sys.getallocatedblocks),
        gauge("threads", "Threads", threading.active_count),
        gauge("tasks", "Tasks of the event loop", lambda: len(asyncio.all_tasks())),
    ]


def program_families(registry: Registry, gates: Gates) -> list[Reading]:
    """The program itself: its version, its feature gates, and how many families it shows."""
    build = _build()
    return [
        reading(
            "kubernetes_build_info",
            Kind.GAUGE,
            "[BETA] The Kubernetes release whose behaviour is followed; always 1",
            lambda: [(tuple(build.values()), 1)],
            *build,
        ),
        reading(
            "kubeproxy_build_info",
            Kind.GAUGE,
            "The version of this program; always 1",
            lambda: [((VERSION,), 1)],
            "version",
        ),
        reading(
            "kubernetes_feature_enabled",
            Kind.GAUGE,
            "[BETA] Whether a feature gate is on, and its stage",
            lambda: (
                ((name, _STAGE[GATES[name].stage]), gates.enabled(name)) for name in sorted(GATES)
            ),
            *("name", "stage"),
        ),
        reading(
            "registered_metrics_total",
            Kind.COUNTER,
            "[BETA] Families that can be shown, by upstream's level of stability",
            lambda: _registered(registry),
            *("deprecated_version", "stability_level"),
        ),
        reading("hidden_metrics_total", Kind.COUNTER, "[BETA] Families that are hidden", int),
        reading("disabled_metrics_total", Kind.COUNTER, "[BETA] Families that are disabled", int),
    ]


def _build() -> dict[str, str]:
    """What is empty is only known of Go programs."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".", 2)
    machine = os.uname().machine
    return {
        "build_date": "",
        "compiler": sys.implementation.name,
        "git_commit": "",
        "git_tree_state": "",
        "git_version": KUBERNETES_VERSION,
        "go_version": f"python{python_version()}",
        "major": major,
        "minor": minor,
        "platform": f"linux/{_ARCHITECTURE.get(machine, machine)}",
    }


def _registered(registry: Registry) -> Iterator[Series]:
    counted = Counter(_stability(family.about.help) for family in registry.families())
    for level, count in sorted(counted.items()):
        yield ("", level), count


def _stability(help_: str) -> str:
    level, bracket, _ = help_.removeprefix("[").partition("] ")
    return level if bracket and help_.startswith("[") else "INTERNAL"
