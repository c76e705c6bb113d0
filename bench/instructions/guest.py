"""In the guest: measures what the argument, which is JSON, asks for, and prints each cost."""

import asyncio
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from bench.instructions import packets, transactions
from bench.instructions.cluster import Changing
from bench.instructions.figures import NFTABLES, PART, PEER_FILE, Asked, Figure, cost
from bench.instructions.ways import PEER, WAYS
from bench.path import Row
from kernels.job import NFTABLES_SINCE, version_of
from kernels.report import reporting, say
from kernels.results import Line
from lab.namespaces import CLONE_NEWNET, CLONE_NEWNS, private_mounts, unshare

Samples = dict[str, list[int]]
Measure = Callable[[Row], Samples]


def plan(asked: Asked) -> Iterator[tuple[str, int, Measure]]:
    """All that is to be measured on this kernel."""
    has_nftables = version_of(os.uname().release) >= NFTABLES_SINCE
    for services in asked.path_sizes:
        for way in asked.ways:
            if has_nftables or NFTABLES not in way:
                yield way, services, partial(_dialled, way, services)
    for services in asked.sizes if has_nftables else ():
        yield NFTABLES, services, partial(_changed, services)


def _changed(services: int, row: Row) -> Samples:
    cluster = Changing(services)
    with row.node.entered():
        return asyncio.run(transactions.measure(cluster))


def _dialled(way: str, services: int, row: Row) -> Samples:
    with WAYS[way](row, services) as served:
        return packets.measure(row, served.port, served.addresses)


def main(arguments: Sequence[str]) -> None:
    """Measure each in a process of its own, which gives its memory back."""
    asked = msgspec.json.decode(arguments[0], type=Asked)
    given = Path("/run/job", PEER_FILE)
    if given.exists():
        shutil.move(given, PEER)
    with reporting(PART) as report:
        for way, services, measure in plan(asked):
            with report.check(f"{way}, {services:,} services"):
                child = os.fork()
                if not child:
                    os._exit(_measured(way, services, measure))
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert code == 0, f"{way}, {services:,} services: the console says what is wrong"


def _measured(way: str, services: int, measure: Measure) -> int:
    """Measure in namespaces of our own, and say what was found; the exit code."""
    try:
        unshare(CLONE_NEWNET | CLONE_NEWNS)
        private_mounts()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for what, samples in measure(Row()).items():
            figure = Figure(what, way, services, cost(samples))
            say(Line(part=PART, data=msgspec.json.encode(figure).decode()))
    except Exception:  # noqa: BLE001  # a process of its own has no caller
        traceback.print_exc()
        return 1
    return 0
