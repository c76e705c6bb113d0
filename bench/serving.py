"""Syncs beside many bad clients: one endpoint changed, event to kernel, with and without them.

500 probes at once every second, 100 slow readers of a large page, 200 silent connections, 50 that
send garbage. Rounds with and without them take turns, so that both meet the same machine.
The time runs from when the event is due: that the event loop is late is part of it.
Runs in a network namespace of its own: `unshare --user --map-root-user --net python -m
bench.serving 1000 10`.
"""

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.clusters import Size
from bench.traffic import Rig
from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import LoopStarted
from kubeproxy.linux.descriptors import allow_many
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.answer import Answer, Page
from kubeproxy.serve.http.listening import listen
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port

ROUNDS, SYNCS = 6, 100
PROBES, SLOW, SILENT, GARBAGE = 500, 100, 200, 50
LARGE = Answer(body=bytes(4 << 20))
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def main(size: Size) -> None:
    allow_many()
    rig = Rig(size)
    await rig.fill()
    health = Health(60.0, lambda: True)
    health.observe(LoopStarted(Family.IPV4))
    async with asyncio.TaskGroup() as tasks:
        listening = listen("127.0.0.1", 0)
        number = listening.getsockname()[1]
        pages: dict[str, Page] = {"/large": lambda _: LARGE, "/healthz": health.healthz}
        room = Room()
        port = Port((listening,), lambda request: pages[request.path](request), room, tasks)
        times: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(2 * ROUNDS):
            loud = turn % 2 == 1
            with clients(number) if loud else contextlib.nullcontext():
                while loud and room.connections < SLOW + SILENT:  # noqa: ASYNC110  # it gathers
                    await asyncio.sleep(0.05)
                times[loud] += [await rig.sync_one() for _ in range(SYNCS)]
        port.close()
    report(size, times, health.answered["/healthz", 200])


def report(size: Size, times: dict[bool, list[float]], answered: int) -> None:
    quiet, loud = (statistics.quantiles(times[which], n=100) for which in (False, True))
    print(
        f"{size}: one endpoint changed, event to kernel, without / with them ({answered} probes "
        f"answered): p50 {quiet[49]:.2f} / {loud[49]:.2f} ms (x {loud[49] / quiet[49]:.2f}), "
        f"p99 {quiet[98]:.2f} / {loud[98]:.2f} ms (x {loud[98] / quiet[98]:.2f})"
    )


@contextlib.contextmanager
def clients(number: int) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "bench.serving", "clients", str(number)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def run_clients(number: int) -> None:
    """The clients: a process of its own."""
    allow_many()
    address = ("127.0.0.1", number)
    held = [socket.create_connection(address) for _ in range(SLOW + SILENT)]
    for each in held[:SLOW]:
        each.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        each.setblocking(False)
    while True:
        begun = time.monotonic()
        for each in held[:SLOW]:
            with contextlib.suppress(OSError):
                each.recv(512)
        for _ in range(GARBAGE):
            with contextlib.suppress(OSError), socket.create_connection(address) as sock:
                sock.sendall(os.urandom(2000) + b"\n\n")
        await asyncio.gather(*(probe(address) for _ in range(PROBES)))
        await asyncio.sleep(max(0.0, begun + 1 - time.monotonic()))


async def probe(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(PROBE)
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


if __name__ == "__main__":
    if sys.argv[1] == "clients":
        asyncio.run(run_clients(int(sys.argv[2])))
    else:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        asyncio.run(main(Size(*map(int, sys.argv[1:3]))))
