"""A client, as a process: `python -m bench.outage.clients ADDRESS PORT EFFORT`.

New connections at a steady pace, one small message and its answer each, and long-lived connections
that exchange such messages all the time. It says `ready` when every long-lived one had an answer,
and goes on until there is a line on its standard input, or no more of it: then it waits for what
it began, and prints one JSON object.
"""

import asyncio
import contextlib
import resource
import socket
import struct
import sys
from collections import Counter

import msgspec

from bench.outage.figures import SLOW, STALL, Effort, Failure, Seen, failure

MESSAGE = b"sixteen bytes..."
PAUSE = 0.1
"""Seconds between two messages, and before another try."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Target = tuple[str, int]


class Client:
    """All connections of one client."""

    def __init__(self, target: Target, effort: Effort) -> None:
        self._target, self._effort = target, effort
        self.connects = 0
        self._failed: Counter[Failure] = Counter()
        self._slow: list[float] = []
        self._broken = 0
        self._gaps: list[float] = []
        self._unanswered = 0
        self._late = 0.0
        self._clock = asyncio.get_running_loop().time

    async def run(self, ended: asyncio.Event) -> Seen:
        """The load until that is set, and until all that was begun has come to an end."""
        answered = [asyncio.Event() for _ in range(self._effort.kept)]
        async with asyncio.TaskGroup() as tasks:
            kept = [tasks.create_task(self._keep(each)) for each in answered]
            for each in answered:
                await each.wait()
            print("ready", flush=True)
            await self._pace(tasks, ended)
            for task in kept:
                task.cancel()
        return Seen(
            connects=self.connects,
            failed=dict(self._failed),
            slow=self._slow,
            kept=self._effort.kept,
            broken=self._broken,
            gaps=self._gaps,
            unanswered=self._unanswered,
            late=self._late,
        )

    async def _pace(self, tasks: asyncio.TaskGroup, ended: asyncio.Event) -> None:
        began = self._clock()
        while not ended.is_set():
            due = began + self.connects / self._effort.rate
            await asyncio.sleep(due - self._clock())
            self._late = max(self._late, self._clock() - due)
            self.connects += 1
            tasks.create_task(self._once())

    async def _once(self) -> None:
        began = self._clock()
        with self._socket() as client:
            try:
                async with asyncio.timeout(self._effort.timeout):
                    await self._connect(client)
                    await _exchange(client)
            except OSError as error:
                self._failed[failure(error)] += 1
                return
        took = self._clock() - began
        if took > SLOW:
            self._slow.append(took)

    async def _keep(self, answered: asyncio.Event) -> None:
        """A connection that is made again when it breaks. It is waited for without a limit."""
        last = self._clock()
        try:
            while True:
                with self._socket() as client, contextlib.suppress(OSError):
                    async with asyncio.timeout(self._effort.timeout):
                        await self._connect(client)
                    try:
                        while True:
                            await _exchange(client)
                            last = self._note(last)
                            answered.set()
                            await asyncio.sleep(PAUSE)
                    except OSError:
                        self._broken += 1
                await asyncio.sleep(PAUSE)
        finally:
            before = len(self._gaps)
            self._note(last)
            self._unanswered += len(self._gaps) - before

    async def _connect(self, client: socket.socket) -> None:
        await asyncio.get_running_loop().sock_connect(client, self._target)

    def _socket(self) -> socket.socket:
        """One that takes no port with it when it is closed."""
        client = socket.socket(socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET)
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        return client

    def _note(self, last: float) -> float:
        """Note how long ago the last answer was; the time now."""
        now = self._clock()
        if now - last > STALL:
            self._gaps.append(now - last)
        return now


async def _exchange(client: socket.socket) -> None:
    """One message and its answer."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, MESSAGE)
    left = len(MESSAGE)
    while left:
        received = await loop.sock_recv(client, left)
        if not received:
            raise ConnectionResetError("it was closed before the answer")
        left -= len(received)


async def main(target: Target, effort: Effort) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # many may wait at once
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, ended.set)
    seen = asyncio.create_task(Client(target, effort).run(ended))
    await ended.wait()
    loop.remove_reader(sys.stdin)
    print(msgspec.json.encode(await seen).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(
        main((sys.argv[1], int(sys.argv[2])), msgspec.json.decode(sys.argv[3], type=Effort))
    )
