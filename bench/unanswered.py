"""Many SYNs that are sent again: `python -m bench.unanswered`.

All endpoints of a service have vanished, so that whoever connects sends its SYN again after a
second. A client makes new connections at a steady pace and gives each up after a second and a
half: there are as many second SYNs a second as first ones. Measured are the processor time of the
proxy and of the whole machine, and how many elements the sets of healing have.
"""

import argparse
import collections
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from bench.clusters import SERVICE_PORT, Size, cluster_ip
from bench.filled import elements
from bench.machine import ROOT, parse_idle, this_code, this_machine
from bench.namespaces import enter, is_privileged
from bench.path import Row, proxying
from bench.proxies import Proxy, Running
from bench.tables import plain
from kubeproxy.base.inet import Family
from lab.namespaces import Namespace

ENDPOINTS = 4
GIVE_UP = 1.5
STEP = 0.005
WARM = 5.0
PARTS = ("none", "retryRefused,retryUnanswered,resetGone", "all")
_DROP = """
table ip vanished {
    chain in { type filter hook prerouting priority raw; tcp flags syn drop; }
}
"""
_RESET = struct.pack("ii", 1, 0)


class Load(msgspec.Struct, frozen=True):
    """What there was of a load, in a second: first SYNs, second ones, processors at work."""

    parts: str
    begun: float
    again: float
    proxy: float
    softirq: float
    machine: float
    elements: dict[str, int]
    resident: float


def dial(address: str, rate: int, seconds: float) -> None:
    """The client: connections that nobody answers."""
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
    )
    waiting: collections.deque[tuple[float, socket.socket]] = collections.deque()
    began = time.monotonic()
    begun = 0
    while (now := time.monotonic()) < began + seconds:
        while begun < (now - began) * rate:
            opened = socket.socket()
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            opened.connect_ex((address, SERVICE_PORT))
            waiting.append((now + GIVE_UP, opened))
            begun += 1
        while waiting and waiting[0][0] < now:
            waiting.popleft()[1].close()
        time.sleep(STEP)


def measure(binary: str, parts: str, rate: int, seconds: float) -> Load:
    """A proxy under the load; what happens after the first seconds counts."""
    proxy = Proxy("ours", binary, section={"healing": {"parts": parts}})
    address = cluster_ip(0)
    row = Row()
    try:
        with proxying(proxy, row, Size(1, ENDPOINTS), [address]) as running:
            row.server.run(["nft", "-f", "-"], stdin=_DROP)
            with row.client.entered():
                numbers = ("--rate", str(rate), "--seconds", str(WARM + seconds + 1))
                module = (sys.executable, "-m", "bench.unanswered")
                client = subprocess.Popen((*module, "--dial", address, *numbers))
            time.sleep(WARM)
            before, began = _now(row.client, running), time.monotonic()
            most = collections.Counter[str]()
            while time.monotonic() < began + seconds:
                most |= elements(row.node, Family.IPV4)
                time.sleep(1)
            after, took = _now(row.client, running), time.monotonic() - began
            resident = running.memory().resident
            client.wait()
    finally:
        row.close()
    begun, again, used, softirq, busy = (
        (b - a) / took for a, b in zip(before, after, strict=True)
    )
    return Load(parts, begun, again, used, softirq, busy, dict(most), resident)


def _now(client: Namespace, running: Running) -> tuple[float, float, float, float, float]:
    with client.entered():
        tcp = [
            line.split() for line in Path("/proc/thread-self/net/snmp").read_text().splitlines()
        ]
    names, values = (words for words in tcp if words[0] == "Tcp:")
    found = dict(zip(names, values, strict=True))
    stat = Path("/proc/stat").read_text()
    softirq = int(stat.split(maxsplit=8)[7]) / os.sysconf("SC_CLK_TCK")
    busy = time.monotonic() * (os.cpu_count() or 1) - parse_idle(stat)
    return float(found["ActiveOpens"]), float(found["RetransSegs"]), running.cpu(), softirq, busy


def rows(loads: Sequence[Load]) -> list[tuple[str, ...]]:
    """A column for each load."""
    names = sorted({name for load in loads for name in load.elements})
    figures: dict[str, Callable[[Load], str]] = {
        "first SYNs a second": lambda load: f"{load.begun:,.0f}",
        "second SYNs a second": lambda load: f"{load.again:,.0f}",
        "processor time of the proxy": lambda load: f"{100 * load.proxy:.1f} %",
        "softirq, of a processor": lambda load: f"{100 * load.softirq:.1f} %",
        "all processors, of one": lambda load: f"{100 * load.machine:.0f} %",
        "memory of the proxy": lambda load: f"{load.resident:.0f} MB",
        **{f"most elements: {name}": partial(_elements, name) for name in names},
    }
    head = ("", *(load.parts for load in loads))
    return [head, *((name, *map(show, loads)) for name, show in figures.items())]


def _elements(name: str, load: Load) -> str:
    return f"{load.elements.get(name, 0):,}"


def main() -> None:
    """Measure one after the other, and print."""
    asked = _arguments()
    if asked.dial:
        dial(asked.dial, asked.rate, asked.seconds)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # what we began ends
    enter()
    machine, code = this_machine(privileged=is_privileged()), this_code()
    print(f"{machine.cores} cores of {machine.processor}, Linux {machine.kernel}")
    print(f"commit {code.commit}, load before {machine.load:.1f}", flush=True)
    loads = [measure(asked.ours, parts, asked.rate, asked.seconds) for parts in PARTS]
    print(f"\n{plain(rows(loads))}\n\nload at the end {os.getloadavg()[0]:.1f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.unanswered", description=__doc__)
    add = parser.add_argument
    add("--ours", default=str(ROOT / ".venv/bin/kube-proxy"), help="the kube-proxy to measure")
    add("--rate", type=int, default=2000, help="first SYNs a second (%(default)s)")
    add("--seconds", type=float, default=20.0, help="of each load (%(default)s)")
    add("--dial", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
