"""Connections and rules over HTTP: how long a scrape takes, and what syncs notice of it.

Each service has a cluster IP, a load balancer's address and a node port: three counters. A client
in a process of its own asks again and again; syncs of one changed endpoint each go on meanwhile.
Rounds with and without the client take turns, so that both meet the same machine.

Runs in a network namespace of its own: `unshare --user --map-root-user --net python -m
bench.traffic 1000 10`; `python -m bench.stages` sees to that.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from bench.clusters import Size, objects, service
from bench.compiled import THIS_NODE, Compiled
from kubeproxy.base.inet import Family
from kubeproxy.base.pace import paced
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.serve.http.answer import Answer, Page
from kubeproxy.serve.http.listening import listen
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.status.history import FamilyHistory
from kubeproxy.serve.status.rules import Selected, text_pieces
from kubeproxy.serve.status.state import FamilyState
from kubeproxy.serve.traffic.series import SeriesLimits
from kubeproxy.serve.traffic.traffic import FRESH, Traffic, families

ROUNDS = 6
SYNCS = 60
PERIOD = 0.02

# The client waits until its next request needs a reading of its own.
CLIENT = """
import http.client, json, sys, time
path, port, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
while True:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    size = len(connection.getresponse().read())
    print(json.dumps([time.perf_counter() - began, size]), flush=True)
    time.sleep(pause)
"""


def exposed(index: int) -> bytes:
    """The Service with an address of three kinds."""
    document = json.loads(service(index))
    document["spec"]["type"] = "LoadBalancer"
    document["spec"]["ports"][0]["nodePort"] = 30000 + index
    address = f"11.{index >> 16}.{index >> 8 & 255}.{index & 255}"
    document["status"] = {"loadBalancer": {"ingress": [{"ip": address}]}}
    return msgspec.json.encode(document)


class Rig(Compiled):
    """A filled kernel, and changes for it."""

    def __init__(self, size: Size) -> None:
        services = [(Kind.SERVICE, exposed(index)) for index in range(size.services)]
        slices = [each for each in objects(size) if each[0] is Kind.ENDPOINT_SLICE]
        super().__init__(size, [*services, *slices])
        self.dataplane = Nftables(Family.IPV4, NftablesSettings(), Nfnetlink(), TableGuard())
        self._events = self.events()

    async def fill(self) -> None:
        await self.dataplane.apply(self.everything())

    async def sync_one(self) -> float:
        """One endpoint changed; milliseconds from when it was due until it is programmed."""
        loop = asyncio.get_running_loop()
        due = loop.time() + PERIOD
        event = next(self._events)
        await asyncio.sleep(PERIOD)
        await self.program(event)
        return (loop.time() - due) * 1000

    async def program(self, event: bytes) -> None:
        """Apply a change."""
        await self.dataplane.apply(self.change(event))


async def idle_stall(seconds: float) -> float:
    """The longest that the event loop kept a timer waiting, in milliseconds."""
    loop = asyncio.get_running_loop()
    longest, end = 0.0, loop.time() + seconds
    while loop.time() < end:
        due = loop.time() + 0.001
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - due)
    return longest * 1000


@asynccontextmanager
async def asking(path: str, port: int, pause: float) -> AsyncIterator[list[tuple[float, int]]]:
    """A client that asks again and again; what it has seen."""
    seen: list[tuple[float, int]] = []
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, path, str(port), str(pause)),
        stdout=asyncio.subprocess.PIPE,
    )
    lines = client.stdout
    assert lines is not None

    async def read() -> None:
        async for line in lines:
            seconds, size = json.loads(line)
            seen.append((seconds, size))

    reading = asyncio.create_task(read())
    while not seen:
        if client.returncode is not None:
            raise RuntimeError("the client ended without an answer; its error stands above")
        await asyncio.sleep(0.01)
    try:
        yield seen
    finally:
        client.kill()
        await client.wait()
        await reading


def quantiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


async def compare(rig: Rig, what: str, path: str, port: int, pause: float) -> None:
    """Syncs and the event loop, with a client and without."""
    alone: list[float] = []
    beside: list[float] = []
    stalls: dict[bool, list[float]] = {False: [], True: []}
    asked: list[tuple[float, int]] = []
    for _ in range(ROUNDS):
        alone += [await rig.sync_one() for _ in range(SYNCS)]
        stalls[False].append(await idle_stall(1.0))
        async with asking(path, port, pause) as seen:
            beside += [await rig.sync_one() for _ in range(SYNCS)]
            stalls[True].append(await idle_stall(1.0))
            asked += seen
    (p50, p99), (p50_beside, p99_beside) = quantiles(alone), quantiles(beside)
    seconds = sorted(each for each, _ in asked)
    print(
        f"{rig.size}: {what}: {len(asked)} answers of {asked[-1][1] / 1e6:.1f} MB, median "
        f"{statistics.median(seconds):.2f} s, longest {seconds[-1]:.2f} s; a sync p50 "
        f"{p50:.1f} ms alone, {p50_beside:.1f} beside (x{p50_beside / p50:.2f}); p99 {p99:.1f}, "
        f"{p99_beside:.1f} (x{p99_beside / p99:.2f}); longest stall "
        f"{statistics.median(stalls[False]):.1f} ms, {statistics.median(stalls[True]):.1f} beside"
    )


def scrape_page(traffic: Traffic, limits: SeriesLimits) -> Page:
    registry = Registry()
    registry.add(*families(traffic, limits, endpoints=False), in_thread=True)

    async def body() -> AsyncIterator[bytes]:
        async for piece in registry.expose():
            yield piece.encode()

    return lambda _: Answer(body=body())


def reading_seconds(look: Callable[[], object]) -> float:
    best = []
    for _ in range(5):
        began = time.perf_counter()
        look()
        best.append(time.perf_counter() - began)
    return statistics.median(best)


async def main(size: Size) -> None:
    rig = Rig(size)
    await rig.fill()
    seconds = await asyncio.to_thread(reading_seconds, rig.dataplane.connections)
    print(f"{size}: the kernel's counters are read in {seconds * 1000:.0f} ms")
    traffic = Traffic({Family.IPV4: rig.dataplane})
    names = list(rig.builder.table.entries)
    family = FamilyState(
        family=Family.IPV4,
        builder=rig.builder,
        node=THIS_NODE,
        failed={},
        failure="",
        healthy=True,
        waiting=None,
        history=FamilyHistory(),
        dataplane=rig.dataplane,
    )
    shown = [Selected(family, THIS_NODE, load_mode("nftables"), names)]
    pages: dict[str, Page] = {
        "/metrics": scrape_page(traffic, SeriesLimits()),
        "/all": scrape_page(traffic, SeriesLimits(series=0)),
        "/rules": lambda _: Answer(body=paced(text_pieces(shown, written=False))),
    }
    async with asyncio.TaskGroup() as tasks:
        listening = listen("127.0.0.1", 0)
        number = listening.getsockname()[1]
        port = Port((listening,), lambda request: pages[request.path](request), Room(), tasks)
        await compare(rig, "scrape, by service", "/metrics", number, FRESH)
        await compare(rig, "scrape, every frontend", "/all", number, FRESH)
        await compare(rig, "/rules", "/rules", number, 0.2)
        port.close()


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    asyncio.run(main(Size(*map(int, sys.argv[1:3]))))
