"""Table to kernel: first fill, one endpoint changed, restart with nothing to do.

Runs in a network namespace of its own: `python -m bench.stages` sees to that.
"""

import asyncio
import statistics
import sys
import time
from itertools import islice

from bench.clusters import Size
from bench.compiled import Compiled
from bench.processes import peak, resident
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.nfnetlink import Nfnetlink


class Timed(Nfnetlink):
    """The kernel, with the time and the bytes of each transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.sent: list[int] = []

    def commit(self, messages: "list[bytes]", generation: int | None = None) -> None:  # type: ignore[override]  # all callers give lists
        started = time.perf_counter()
        super().commit(messages, generation)
        if messages:
            self.seconds.append(time.perf_counter() - started)
            self.sent.append(sum(map(len, messages)))


async def main(size: Size) -> None:
    compiled = Compiled(size)
    before = resident()
    kernel = Timed()
    dataplane = Nftables(Family.IPV4, NftablesSettings(), kernel, TableGuard())
    started = time.perf_counter()
    await dataplane.apply(compiled.everything())
    filled = time.perf_counter() - started
    print(
        f"{size}: programmed {filled:.2f} s, of it kernel {sum(kernel.seconds):.2f} s "
        f"(longest transaction {max(kernel.seconds) * 1000:.0f} ms), "
        f"{sum(kernel.sent) / 1e6:.1f} MB sent"
    )
    changes = []
    kernel.sent.clear()
    for event in islice(compiled.events(), 200):
        begun = time.perf_counter()
        await dataplane.apply(compiled.change(event))
        changes.append((time.perf_counter() - begun) * 1000)
    cuts = statistics.quantiles(changes, n=100)
    print(
        f"{size}: one endpoint changed, event to kernel: p50 {cuts[49]:.2f} ms, "
        f"p99 {cuts[98]:.2f} ms, {statistics.median(kernel.sent):.0f} bytes sent"
    )
    again = Nftables(Family.IPV4, NftablesSettings(), Nfnetlink(), TableGuard())
    started = time.perf_counter()
    report = await again.apply(compiled.everything())
    compared = time.perf_counter() - started
    assert report.written == 0
    print(
        f"{size}: restart, compare with nothing to do: {compared:.2f} s; resident "
        f"{before:.0f} MB with the table, {resident():.0f} MB now, peak {peak():.0f} MB"
    )


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3]))))
