"""The process, the Python runtime and this program: from /proc, the interpreter and its gates.

process_* has the names that Go programs use. There is no go_*: nothing here is Go.
"""

import asyncio
import gc
import os
import re
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.gates import GATES, Gates, GateStage
from kubeproxy.serve.metrics.families import Reading, Series, reading
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.zpages import python_version

_OWN = Path("/proc/self")
_UNLIMITED = 2.0**64
_STABILITY = re.compile(r"\[(\w+)\] ")
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


def start_time() -> float:
    """The Unix time at which this process started."""
    return parse_boot_time(Path("/proc/stat").read_text()) + usage().started


def start_family(started: float) -> Reading:
    """When this process started; /metrics/slis has it too."""
    return reading("process_start_time_seconds", "Unix time of the start", lambda: started)


def process_families() -> list[Reading]:
    """The process_* families but for the time of the start."""

    def octets() -> tuple[int, int]:
        return parse_octets((_OWN / "net/netstat").read_text())

    def limit(kind: int) -> float:
        soft = resource.getrlimit(kind)[0]
        return _UNLIMITED if soft == resource.RLIM_INFINITY else soft

    families: dict[str, tuple[str, Callable[[], float]]] = {
        "cpu_seconds_total": ("Seconds of CPU time", lambda: usage().cpu),
        "resident_memory_bytes": ("Memory in use", lambda: usage().resident),
        "virtual_memory_bytes": ("Address space", lambda: usage().virtual),
        "virtual_memory_max_bytes": (
            "Limit of the address space",
            lambda: limit(resource.RLIMIT_AS),
        ),
        "open_fds": ("Open files", lambda: len(os.listdir(_OWN / "fd"))),  # noqa: PTH208  # faster
        "max_fds": ("Limit of open files", lambda: limit(resource.RLIMIT_NOFILE)),
        "network_receive_bytes_total": (
            "Bytes received in this network namespace",
            lambda: octets()[0],
        ),
        "network_transmit_bytes_total": (
            "Bytes sent from this network namespace",
            lambda: octets()[1],
        ),
    }
    return [reading(f"process_{name}", *each) for name, each in families.items()]


def python_families() -> list[Reading]:
    """The python_* families."""
    version = tuple(map(str, sys.version_info[:3]))
    info = (sys.implementation.name, *version, ".".join(version))
    labels = ("implementation", "major", "minor", "patchlevel", "version")

    def collected(name: str, help_: str, key: str) -> Reading:
        def read() -> Iterator[Series]:
            return (((str(n),), each[key]) for n, each in enumerate(gc.get_stats()))

        return reading(f"python_gc_{name}_total", help_, read, "generation")

    return [
        _info("python_info", "The interpreter; always 1", dict(zip(labels, info, strict=True))),
        collected("collections", "Collections", "collections"),
        collected("objects_collected", "Objects collected", "collected"),
        collected("objects_uncollectable", "Objects that could not be collected", "uncollectable"),
        reading("python_allocated_blocks", "Blocks of memory in use", sys.getallocatedblocks),
        reading("python_threads", "Threads", threading.active_count),
        reading("python_tasks", "Tasks of the event loop", lambda: len(asyncio.all_tasks())),
    ]


def _info(name: str, help_: str, labels: Mapping[str, str]) -> Reading:
    """A family whose labels are what it says."""
    return reading(name, help_, lambda: [(tuple(labels.values()), 1)], *labels)


def program_families(registry: Registry, gates: Gates) -> list[Reading]:
    """The program itself: its version, its feature gates, and how many families it shows."""
    release = "[BETA] The Kubernetes release whose behaviour is followed; always 1"
    version = "The version of this program; always 1"
    return [
        _info("kubernetes_build_info", release, _build()),
        _info("kubeproxy_build_info", version, {"version": VERSION}),
        reading(
            "kubernetes_feature_enabled",
            "[BETA] Whether a feature gate is on, and its stage",
            lambda: (((name, _stage(name)), gates.enabled(name)) for name in sorted(GATES)),
            *("name", "stage"),
        ),
        reading(
            "registered_metrics_total",
            "[BETA] Families that can be shown, by upstream's level of stability",
            lambda: _registered(registry),
            *("deprecated_version", "stability_level"),
        ),
        reading("hidden_metrics_total", "[BETA] Families that are hidden", int),
        reading("disabled_metrics_total", "[BETA] Families that are disabled", int),
    ]


def _stage(gate: str) -> str:
    stage = GATES[gate].stage
    return "" if stage is GateStage.GA else stage.name


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
    helps = (family.about.help for family in registry.families())
    found = (_STABILITY.match(help_) for help_ in helps)
    counted = Counter(level[1] if level else "INTERNAL" for level in found)
    return ((("", level), count) for level, count in sorted(counted.items()))
