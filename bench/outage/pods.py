"""All pods, as one process: `python -m bench.outage.pods PORT`.

Each line of standard input is a command, which is answered by a line: `open ADDRESS` has a pod
listen and send back what it receives; `close ADDRESS` ends it with all its connections, after
which the kernel refuses new ones.
"""

import asyncio
import sys
from typing import cast

BACKLOG = 4096


class Pod(asyncio.Protocol):
    """A connection to a pod."""

    def __init__(self, connections: set["Pod"]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._connections.discard(self)


class Pods:
    """The pods that listen, and their connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: dict[str, tuple[asyncio.Server, set[Pod]]] = {}

    async def open(self, address: str) -> None:
        connections: set[Pod] = set()
        server = await asyncio.get_running_loop().create_server(
            lambda: Pod(connections), address, self._port, backlog=BACKLOG
        )
        self._open[address] = server, connections

    async def close(self, address: str) -> None:
        server, connections = self._open.pop(address)
        server.close()
        for connection in tuple(connections):
            connection.transport.abort()

    async def end(self) -> None:
        """Close all that are open."""
        for address in tuple(self._open):
            await self.close(address)


async def main(port: int) -> None:
    pods = Pods(port)
    actions = {"open": pods.open, "close": pods.close}
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async for line in reader:
        verb, address = line.decode().split()
        await actions[verb](address)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
