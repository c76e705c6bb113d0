"""What the kernel does for a transaction of nftables mode, by kind of change."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bench.instructions.clock import own
from bench.instructions.cluster import CHANGES, Changing
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.nfnetlink import Nfnetlink

FILL = "the first fill"
_PAUSE = 0.05
"""Seconds in which the kernel frees what a transaction removed."""


class Counted(Nfnetlink):
    """The kernel, with the cost of what was sent to it."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0

    def send(self, data: bytes | bytearray, what: str) -> None:
        """The kernel carries it out before this returns."""
        began = own()
        super().send(data, what)
        self.spent += own() - began

    def take(self) -> int:
        """What was spent since the last time."""
        spent, self.spent = self.spent, 0
        return spent


async def measure(cluster: Changing) -> dict[str, list[int]]:
    """Fill the kernel, and make every kind of change; it stays filled."""
    kernel = Counted()
    dataplane = Nftables(Family.IPV4, NftablesSettings(), kernel, TableGuard())
    found: dict[str, list[int]] = {}
    await dataplane.apply(cluster.everything())
    found[FILL] = [kernel.take()]
    # As in the daemon: the kernel notifies of what it has done.
    async with _watching(dataplane):
        for change in CHANGES:
            found[change.what] = []
            for number in range(change.rounds):
                update = change.make(cluster, number)
                await asyncio.sleep(_PAUSE)
                kernel.take()
                report = await dataplane.apply(update)
                assert report.written, f"{change.what}: nothing was written"
                found[change.what].append(kernel.take())
    await dataplane.close()
    return found


@contextlib.asynccontextmanager
async def _watching(dataplane: Nftables) -> AsyncIterator[None]:
    watching = asyncio.create_task(dataplane.watch(lambda _: None))
    await asyncio.sleep(_PAUSE)
    yield
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
