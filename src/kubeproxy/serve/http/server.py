"""Listening ports: opening, accepting and closing.

Every connection is a task of the group that the port was opened in. Ports that share a `Room`
share its limits.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.bursts import Bursts
from kubeproxy.base.inet import join, parse_address
from kubeproxy.linux.descriptors import leave_the_last
from kubeproxy.serve.http.access import SOCKET_PEER
from kubeproxy.serve.http.answer import Page
from kubeproxy.serve.http.connection import HttpConnection
from kubeproxy.serve.http.listening import ListenError, listen, listen_unix
from kubeproxy.serve.http.places import Caller, caller_of
from kubeproxy.serve.http.request import Ends
from kubeproxy.serve.http.room import Limits, Room, Task

RETRY_SECONDS = 5.0
_ACCEPTS_AT_ONCE = 8
_REST_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_UNIX = Ends((SOCKET_PEER, 0), (SOCKET_PEER, 0))


class Port:
    """Listening sockets that answer with one page, from their opening until they are closed.

    A Unix socket is for root and our own user: connections of others are closed at once.
    """

    def __init__(
        self, sockets: Iterable[socket.socket], page: Page, room: Room, tasks: asyncio.TaskGroup
    ) -> None:
        self._sockets = tuple(sockets)
        self._page = page
        self._room = room
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._connections: set[Task] = set()
        self._rests: dict[socket.socket, asyncio.TimerHandle] = {}
        self._bursts = Bursts()
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Free the addresses at once, and drop the connections."""
        sockets, self._sockets = self._sockets, ()
        for each in sockets:
            if each in self._rests:
                self._rests.pop(each).cancel()
            self._loop.remove_reader(each)
            each.close()
        for task in self._connections:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                client, peer = listening.accept()
                leave_the_last(client)
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            if client.family == socket.AF_UNIX:
                ends, admitted = _UNIX, is_admitted(client)
            else:
                ends, admitted = Ends(peer[:2], client.getsockname()[:2]), True
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller = caller_of(ends)
            if admitted and self._room.make_room(caller):
                self._begin(client, ends, caller)
            else:
                client.close()

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Out of descriptors or memory: clients wait in the queue, a retry at once would spin."""
        if self._bursts.begins(self._loop.time()):
            klog.error("Cannot accept a connection", err=error, address=_name(listening))
        self._loop.remove_reader(listening)
        self._rests[listening] = self._loop.call_later(_REST_SECONDS, self._wake, listening)

    def _wake(self, listening: socket.socket) -> None:
        del self._rests[listening]
        self._loop.add_reader(listening, self._accept, listening)

    def _begin(self, client: socket.socket, ends: Ends, caller: Caller) -> None:
        client.setblocking(False)
        connection = HttpConnection(client, ends, caller, self._page, self._room)
        task = self._tasks.create_task(connection.run(), name="http connection")
        self._room.enter(task, caller)
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Here and not in the task, which may be cancelled before its first step.
        task.add_done_callback(lambda _: client.close())


def _name(listening: socket.socket) -> str:
    """The address of a socket as text."""
    address = listening.getsockname()
    return address if isinstance(address, str) else join(*address[:2])


async def serve(address: str, page: Page, refused: Callable[[ListenError], None]) -> None:
    """Answer on `host:port` until cancelled.

    Each time that the port cannot be opened, `refused` is called with the reason; unless it
    raises, the next try is 5 s later.
    """
    host, _, port = address.rpartition(":")
    ip = parse_address(host.strip("[]")) or host
    while True:
        try:
            listening = listen(ip, int(port))
            break
        except ListenError as error:
            refused(error)
        await asyncio.sleep(RETRY_SECONDS)
    klog.info("Serving HTTP", v=3, address=address)
    await _serve(listening, page, Room())


async def _serve(listening: socket.socket, page: Page, room: Room) -> None:
    async with asyncio.TaskGroup() as tasks:
        opened = Port((listening,), page, room, tasks)
        try:
            await asyncio.Event().wait()
        finally:
            opened.close()


async def serve_unix(path: str, page: Page) -> None:
    """Answer root and our own user at the path until cancelled; the file goes with us.

    Where that is not possible, because another process listens there or the directory is not
    ours, it is logged once: no traffic depends on it.
    """
    try:
        listening = listen_unix(path)
    except ListenError as error:
        klog.warning("The status socket cannot be opened, going on without", err=error)
        return
    klog.info("Serving status", v=3, socket=path)
    own = _identity(path)
    try:
        await _serve(listening, page, Room(Limits(connections=64)))
    finally:
        _remove(path, own)


def is_admitted(client: socket.socket) -> bool:
    """Whether the client is root or our own user: the file's permissions may have been changed."""
    raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] in {0, os.geteuid()}


def _remove(path: str, own: tuple[int, int] | None) -> None:
    """Remove the file, unless it is another one by now."""
    if _identity(path) == own:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _identity(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = Path(path).stat()
        return found.st_dev, found.st_ino
    return None
