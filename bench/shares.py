"""Syncs of a dataplane, and how their time is shared by us, the kernel and programs."""

import functools
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import ParamSpec, TypeVar

import msgspec

from bench.compiled import Compiled
from bench.processes import resident
from kubeproxy.dataplane.contract import Dataplane, Update

P = ParamSpec("P")
R = TypeVar("R")


class Shares(msgspec.Struct, frozen=True):
    """Seconds of each, and the number of objects written."""

    own: float
    kernel: float
    programs: float
    written: int

    def __str__(self) -> str:
        parts = (("own", self.own), ("kernel", self.kernel), ("programs", self.programs))
        shown = ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in parts)
        return f"{shown}, {self.written:,} objects written"


class Stopwatch:
    """Adds up how long calls take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begun

        return timed


KERNEL, PROGRAMS = Stopwatch(), Stopwatch()


async def measure(compiled: Compiled, start: Callable[[], Dataplane], changes: int) -> None:
    """Print the shares of full syncs and of one change; `start` is a start of the proxy."""
    size, before = compiled.size, resident()
    everything = compiled.everything(compiled.first)
    print(f"{size}: first full sync: {await timed(start(), everything)}")
    dataplane = start()
    print(f"{size}: full sync after a restart: {await timed(dataplane, everything)}")
    print(f"{size}: another full sync: {await timed(dataplane, compiled.everything())}")
    found: list[Shares] = []
    for event in islice(compiled.events(), changes):
        begun = time.perf_counter()
        update = compiled.change(event)
        compiling = time.perf_counter() - begun
        shares = await timed(dataplane, update)
        found.append(msgspec.structs.replace(shares, own=compiling + shares.own))
    median = Shares(
        statistics.median(each.own for each in found),
        statistics.median(each.kernel for each in found),
        statistics.median(each.programs for each in found),
        int(statistics.median(each.written for each in found)),
    )
    print(f"{size}: one endpoint changed, event to kernel, median: {median}")
    print(f"{size}: resident {before:.0f} MB with the table, {resident():.0f} MB now")


async def timed(dataplane: Dataplane, update: Update) -> Shares:
    """The shares of one sync."""
    KERNEL.seconds = PROGRAMS.seconds = 0.0
    begun = time.perf_counter()
    report = await dataplane.apply(update)
    own = time.perf_counter() - begun - KERNEL.seconds - PROGRAMS.seconds
    assert not report.failed, report.failed
    return Shares(own, KERNEL.seconds, PROGRAMS.seconds, report.written)
