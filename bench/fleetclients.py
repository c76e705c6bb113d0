"""Many clients of one API server in one process: `python -m bench.fleetclients KUBECONFIG COUNT`.

Each is the daemon's own source of events, with its own connections, and nothing behind it. It
begins at the first line of standard input, and answers every further line with how many clients
have all objects and how many changes of EndpointSlices they were sent after that, as JSON.
"""

import asyncio
import os
import sys

import msgspec

from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.kubeconfig import load_kubeconfig
from kubeproxy.cluster.events import Delete, Event, Synced, Upsert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings


class Counted(msgspec.Struct):
    """What the clients of a process have received."""

    synced: int = 0
    events: int = 0


class _Client:
    """Counts the events of one source."""

    def __init__(self, total: Counted) -> None:
        self._total = total
        self._synced: set[Kind] = set()

    def deliver(self, event: Event) -> None:
        match event:
            case Synced(kind=kind) if kind not in self._synced:
                self._synced.add(kind)
                self._total.synced += len(self._synced) == len(Kind)
            case Upsert(kind=Kind.ENDPOINT_SLICE) | Delete(kind=Kind.ENDPOINT_SLICE):
                self._total.events += Kind.ENDPOINT_SLICE in self._synced


async def _run(access: Access, count: int) -> None:
    lines = await _standard_input()
    await lines.readline()
    total = Counted()
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(
                ApiServer(access, WatchSettings(f"node-{index}"), environ=os.environ).run(
                    _Client(total).deliver
                )
            )
            for index in range(count)
        ]
        while await lines.readline():
            sys.stdout.buffer.write(msgspec.json.encode(total) + b"\n")
            sys.stdout.buffer.flush()
        for task in running:
            task.cancel()


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    asyncio.run(_run(load_kubeconfig(sys.argv[1]), int(sys.argv[2])))
