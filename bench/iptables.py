"""Table to kernel through iptables-restore: our own share of a sync, and that of the programs.

Runs in a network namespace of its own: `unshare --net python -m bench.iptables 5000 10`. In a
user namespace the nft kind of the programs has too small a buffer for such clusters.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import islice

from bench.clusters import Size
from bench.compiled import Compiled
from bench.memory import resident
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
from kubeproxy.linux.xtables import Xtables

CHANGES = 20


class Timed(Xtables):
    """The programs, with a watch on them; or none of them, to see our own share alone."""

    def __init__(self, family: Family, *, idle: bool) -> None:
        super().__init__(family)
        self.seconds = 0.0
        self.sent = 0
        self._idle = idle

    def _run(
        self, verb: str, arguments: Sequence[str], text: str = "", *, wait: bool = True
    ) -> str:
        self.sent += len(text)
        begun = time.perf_counter()
        said = "" if self._idle else super()._run(verb, arguments, text, wait=wait)
        self.seconds += time.perf_counter() - begun
        return said


async def main(size: Size, *, idle: bool) -> None:
    compiled = Compiled(size)
    programs = Timed(Family.IPV4, idle=idle)
    dataplane = Iptables(Family.IPV4, IptablesSettings(), programs)
    before = resident()
    first = await _timed(dataplane, programs, compiled.everything(compiled.first))
    print(f"{size}: first full sync: {first}, {programs.sent / 1e6:.1f} MB to restore")
    again = await _timed(dataplane, programs, compiled.everything())
    print(f"{size}: another full sync: {again}")
    shares: list[_Shares] = []
    for event in islice(compiled.events(), CHANGES):
        begun = time.perf_counter()
        update = compiled.change(event)
        before_it = time.perf_counter() - begun
        took = await _timed(dataplane, programs, update)
        shares.append(_Shares(before_it + took.own, took.programs))
    middle = _Shares(
        statistics.median(each.own for each in shares),
        statistics.median(each.programs for each in shares),
    )
    print(f"{size}: one endpoint changed, event to kernel, median: {middle}")
    print(f"{size}: resident {before:.0f} MB with the table, {resident():.0f} MB now")


class _Shares:
    """How long we took, and how long the programs."""

    def __init__(self, own: float, programs: float) -> None:
        self.own = own
        self.programs = programs

    def __str__(self) -> str:
        return f"own {self.own * 1000:.1f} ms, programs {self.programs * 1000:.0f} ms"


async def _timed(dataplane: Iptables, programs: Timed, update: Update) -> _Shares:
    programs.seconds = 0.0
    begun = time.perf_counter()
    await dataplane.apply(update)
    whole = time.perf_counter() - begun
    return _Shares(whole - programs.seconds, programs.seconds)


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3])), idle="--idle" in sys.argv))
