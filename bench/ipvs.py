"""Table to kernel in ipvs mode: our own share of a sync, the kernel's, and that of the programs.

Needs a kernel with ip_vs, and leaves everything in it. In the test kernel:
`PYTHONPATH=tests python -m uml -- python -m bench.ipvs 1000 10`. That kernel is a process itself
and slow wherever it is entered: compare its figures with each other only.
"""

import asyncio
import contextlib
import functools
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest import mock

import msgspec

from bench.clusters import Size
from bench.compiled import Compiled
from bench.memory import resident
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.ipvs.apply import Ipvs
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.linux import dummy, ipset, ipvs, tools
from kubeproxy.linux.netlink_socket import open_netlink
from kubeproxy.linux.xtables import Xtables

CHANGES = 50

P = ParamSpec("P")
R = TypeVar("R")


class Shares(msgspec.Struct):
    """How long we took, how long the kernel and how long the programs; objects written."""

    own: float = 0.0
    kernel: float = 0.0
    programs: float = 0.0
    written: int = 0

    def __str__(self) -> str:
        parts = (("own", self.own), ("kernel", self.kernel), ("programs", self.programs))
        shown = ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in parts)
        return f"{shown}, {self.written:,} objects written"


class Watch:
    """Adds up how long calls take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def watched(*args: P.args, **kwargs: P.kwargs) -> R:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begun

        return watched


KERNEL, PROGRAMS = Watch(), Watch()


class WatchedLink(socket.socket):
    """A netlink socket: the kernel works while something is sent or received."""

    send = KERNEL.on(socket.socket.send)
    recv_into = KERNEL.on(socket.socket.recv_into)


def open_watched(protocol: int) -> socket.socket:
    link = WatchedLink(fileno=open_netlink(protocol).detach())
    link.setblocking(False)
    return link


@contextlib.contextmanager
def watches() -> Iterator[None]:
    with (
        mock.patch.object(ipvs, "open_netlink", open_watched),
        mock.patch.object(dummy, "open_netlink", open_watched),
        mock.patch.object(Path, "read_text", KERNEL.on(Path.read_text)),
        mock.patch.object(ipset, "run", PROGRAMS.on(tools.run)),
        mock.patch.object(Xtables, "save", PROGRAMS.on(Xtables.save)),
        mock.patch.object(Xtables, "restore", PROGRAMS.on(Xtables.restore)),
    ):
        yield


async def main(size: Size) -> None:
    compiled = Compiled(size)
    before = resident()
    ipvs.Ipvs().check("rr")
    everything = compiled.everything(compiled.first)
    print(f"{size}: first full sync: {await _timed(_dataplane(), everything)}")
    dataplane = _dataplane()
    print(f"{size}: full sync after a restart: {await _timed(dataplane, everything)}")
    print(f"{size}: another full sync: {await _timed(dataplane, compiled.everything())}")
    shares: list[Shares] = []
    for event in islice(compiled.events(), CHANGES):
        begun = time.perf_counter()
        update = compiled.change(event)
        before_it = time.perf_counter() - begun
        took = await _timed(dataplane, update)
        took.own += before_it
        shares.append(took)
    middle = Shares(
        statistics.median(each.own for each in shares),
        statistics.median(each.kernel for each in shares),
        statistics.median(each.programs for each in shares),
        int(statistics.median(each.written for each in shares)),
    )
    print(f"{size}: one endpoint changed, event to kernel, median: {middle}")
    print(f"{size}: resident {before:.0f} MB with the table, {resident():.0f} MB now")


def _dataplane() -> Ipvs:
    """As a process that has just started."""
    return Ipvs(Family.IPV4, IpvsSettings(), ipvs.Ipvs(), Xtables(Family.IPV4))


async def _timed(dataplane: Ipvs, update: Update) -> Shares:
    KERNEL.seconds = PROGRAMS.seconds = 0.0
    begun = time.perf_counter()
    report = await dataplane.apply(update)
    own = time.perf_counter() - begun - KERNEL.seconds - PROGRAMS.seconds
    assert not report.failed, report.failed
    return Shares(own, KERNEL.seconds, PROGRAMS.seconds, report.written)


if __name__ == "__main__":
    with watches():
        asyncio.run(main(Size(*map(int, sys.argv[1:3]))))
