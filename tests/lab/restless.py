"""Programs one cluster after the other without a pause, and dies in the midst of it.

A program. The kernel carries a transaction out within one system call, so that a process can be
killed between two of them only: this one kills itself after a given number.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.nftables import apply, batch
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.diff import diff, patch
from kubeproxy.table.entries import Entry, Table
from lab.entries import served
from lab.farm import crop
from lab.namespaces import entered
from world import Mode, node

SERVICES = 1500
"""So many that the kernel gets their frontends in several transactions."""
MOST_ENDPOINTS = 4
CHANGED = 100


class Doomed(Nfnetlink):
    """A socket that takes its process down after so many transactions."""

    def __init__(self, lifetime: int) -> None:
        super().__init__()
        self._lifetime = lifetime

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        super().commit(messages, generation)
        self._lifetime -= bool(messages)
        if not self._lifetime:
            os.kill(os.getpid(), signal.SIGKILL)


def some_entry(number: int, chance: random.Random, family: Family) -> Entry:
    """A service with any endpoints."""
    endpoints = chance.sample(range(1000), chance.randint(1, MOST_ENDPOINTS))
    backends = [crop(each, family) for each in endpoints]
    return served(number, backends, family, Protocol.UDP)


def entries(chance: random.Random, family: Family) -> dict[int, Entry]:
    """All services, by number."""
    return {number: some_entry(number, chance, family) for number in range(1, SERVICES + 1)}


async def program(lifetime: int, family: Family) -> None:
    """Never returns."""
    chance = random.Random(lifetime)
    with Doomed(lifetime) as kernel:
        dataplane = apply.Nftables(family, NftablesSettings(), kernel, TableGuard())
        table = Table(family)
        known = entries(chance, family)
        full = True
        while True:
            wanted = Table(family)
            for entry in known.values():
                wanted.put(entry)
            changes = diff(table, wanted)
            patch(table, changes)
            await dataplane.apply(Update(table, node(Mode.NFTABLES, family), changes, full))
            full = False
            for number in chance.sample(range(1, SERVICES + 1), CHANGED):
                known[number] = some_entry(number, chance, family)


def main(path: str, lifetime: str, family: str) -> None:
    """Program the kernel of that namespace; a first fill takes many transactions."""
    apply._PIECE = batch._LARGEST = 1 << 14
    with entered(Path(path)):
        asyncio.run(program(int(lifetime), Family(family)))


if __name__ == "__main__":
    main(*sys.argv[1:])
