"""Programs one cluster after the other without a pause, until it is killed.

A program: it says `ready` before the first sync. Run it inside of a network namespace.
"""

import asyncio
import random
import sys
from pathlib import Path

from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.nftables import apply
from kubeproxy.dataplane.nftables.guard import Guard
from kubeproxy.inet import Family, Protocol
from kubeproxy.kernel.nfnetlink import Nfnetlink
from kubeproxy.table.diff import diff, patch
from kubeproxy.table.entries import Entry, Table
from kubeproxy.table.node import Mode
from lab.entries import served
from lab.farm import crop
from lab.namespaces import entered
from world import node

SERVICES = 200
MOST_ENDPOINTS = 40


def entries(chance: random.Random, family: Family) -> list[Entry]:
    """Services with any number of endpoints."""
    return [
        served(
            number,
            [crop(each, family) for each in chance.sample(range(1000), _count(chance))],
            family,
            Protocol.UDP,
        )
        for number in range(1, SERVICES + 1)
    ]


def _count(chance: random.Random) -> int:
    return chance.randint(1, MOST_ENDPOINTS)


async def program(seed: int, family: Family) -> None:
    """Never ends."""
    chance = random.Random(seed)
    with Nfnetlink() as kernel:
        dataplane = apply.Nftables(family, apply.Settings(), kernel, Guard())
        table = Table(family)
        full = True
        while True:
            wanted = Table(family)
            for entry in entries(chance, family):
                wanted.put(entry)
            changes = diff(table, wanted)
            patch(table, changes)
            await dataplane.apply(Update(table, node(Mode.NFTABLES, family), changes, full))
            full = False


def main(path: str, seed: str, family: str) -> None:
    """Program the kernel of that namespace; a first fill takes many transactions."""
    apply._PIECE = 1 << 14
    print("ready", flush=True)  # noqa: T201  # what the starter waits for
    with entered(Path(path)):
        asyncio.run(program(int(seed), Family(family)))


if __name__ == "__main__":
    main(*sys.argv[1:])
