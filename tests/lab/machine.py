"""What the lab depends on of the machine that it runs on, for people who look at a failure."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = {
    "nft": "--version",
    "iptables-nft": "--version",
    "iptables-legacy": "--version",
    "ipset": "--version",
    "conntrack": "--version",
    "ip": "-V",
}
# Shared with all that runs on the machine: who has used them up makes tests fail here.
_LIMITS = (
    "user/max_user_namespaces",
    "user/max_net_namespaces",
    "fs/inotify/max_user_instances",
    "net/core/wmem_max",
    "net/netfilter/nf_conntrack_max",
)


def depends_on() -> Iterator[str]:
    """Lines for the head of a run."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"Linux {os.uname().release}, {os.cpu_count()} processors, load {load}, {_memory()}"
    yield ", ".join(_version(program, flag) for program, flag in _PROGRAMS.items())
    yield ", ".join(f"{limit.replace('/', '.')} {_limit(limit)}" for limit in _LIMITS)


def _memory() -> str:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (available,) = (line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return f"{int(available) >> 20} GiB free"


def _version(program: str, flag: str) -> str:
    if shutil.which(program) is None:
        return f"no {program}"
    printed = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    return (printed.stdout or printed.stderr).splitlines()[0].split(":")[0]


def _limit(name: str) -> str:
    path = Path("/proc/sys", name)
    return path.read_text().strip() if path.exists() else "unknown"
