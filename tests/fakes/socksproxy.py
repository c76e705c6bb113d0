"""A SOCKS5 proxy on loopback, with as much of RFC 1928 and RFC 1929 as clients need."""

import asyncio
import contextlib
import ipaddress
from types import TracebackType
from typing import Self

_REFUSED = 5
_NAMES = 3


class SocksProxy:
    """Connects where clients want to; with a login, those only who know it.

    `elsewhere` leads names and addresses to other hosts. `targets` is where clients wanted to go.
    """

    def __init__(
        self,
        login: tuple[str, str] | None = None,
        elsewhere: dict[str, str] | None = None,
        reply: int = 0,
    ) -> None:
        self.targets: list[str] = []
        self._login = login
        self._elsewhere = elsewhere or {}
        self._reply = reply
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def url(self, user: str = "") -> str:
        """As in `proxy-url`."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"socks5://{user + '@' if user else ''}127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._connect(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await self._admitted(reader, writer):
            return
        _, _, _, type_ = await reader.readexactly(4)
        if type_ == _NAMES:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode()
        else:
            host = str(ipaddress.ip_address(await reader.readexactly(4 if type_ == 1 else 16)))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.targets.append(f"{host} {port}")
        reply = self._reply
        try:
            far = await asyncio.open_connection(self._elsewhere.get(host, host), port)
        except OSError:
            reply = reply or _REFUSED
        # Where it connected from; a proxy may answer with a name.
        bound = b"\x03\x05proxy" if type_ == _NAMES else b"\x01\0\0\0\0"
        writer.write(bytes([5, reply, 0]) + bound + b"\0\0")
        if reply == 0:
            await asyncio.gather(_pump(reader, far[1]), _pump(far[0], writer))

    async def _admitted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        wanted = 0 if self._login is None else 2
        way = wanted if wanted in offered else 0xFF
        writer.write(bytes([5, way]))
        if way != 2:
            return way == 0
        _, size = await reader.readexactly(2)
        user = (await reader.readexactly(size)).decode()
        (size,) = await reader.readexactly(1)
        known = (user, (await reader.readexactly(size)).decode()) == self._login
        writer.write(bytes([1, 0 if known else 1]))
        return known


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()
