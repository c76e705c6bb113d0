"""TCP listeners on loopback addresses, each of which relays to one of several targets.

What a listener stands for, and which target a connection gets, is the caller's business: this is
sockets only. Everything happens in callbacks of the event loop and nothing waits, so that there
are no tasks to lose, and what is cut is gone when the call returns.
"""

import asyncio
import contextlib
import errno
import os
import random
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Generic, TypeVar

from kubeproxy.base import klog
from kubeproxy.base.bursts import Bursts
from kubeproxy.base.inet import join
from kubeproxy.linux.descriptors import leave_the_last, share

Address = tuple[str, int]
ListenerT = TypeVar("ListenerT")
PinT = TypeVar("PinT")
Choose = Callable[[ListenerT, PinT | None, float, float], tuple[Address, PinT | None]]
"""(listener, what the last choice left, time, chance) -> target, what the next has to know."""

CONNECTIONS: Final = 2048
"""Of all listeners together; where descriptors are few, there are fewer."""
_BACKLOG: Final = 4096
_ACCEPTS_AT_ONCE: Final = 64
_BINDS_AT_ONCE: Final = 64
_REST_SECONDS: Final = 1.0
_CHUNK: Final = 1 << 17
_RESET: Final = struct.pack("ii", 1, 0)  # linger on, for no time: close() discards and resets
_NOTHING: Final = memoryview(b"")
_BACKEND_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # An endpoint that vanished closes nothing: probe every 15 s, give up after 150 s.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
)


class LocalProxy(Generic[ListenerT, PinT]):
    """Keeps the listeners of one IP family as they are wanted.

    A client is connected to one target, chosen once: when that cannot be reached within
    `connect_seconds`, the client's connection is closed and no other target is tried. A listener
    has at most half of `connections`, and never more than it leaves to others.
    """

    def __init__(
        self,
        choose: Choose[ListenerT, PinT],
        connect_seconds: float = 5.0,
        connections: int = CONNECTIONS,
    ) -> None:
        self.choose = choose
        self.connect_seconds = connect_seconds
        self.connections = 0  # of all listeners
        self.bind_failures = 0
        self._most = connections
        self._ports: dict[Address, _Port[ListenerT, PinT]] = {}

    async def update(self, wanted: Mapping[Address, ListenerT]) -> dict[Address, str]:
        """Have these listeners and no others; says which could not be opened, and why.

        Those are tried again at the next update. A listener that stays keeps its connections,
        whatever became of its targets; one that goes takes them with it.
        """
        for address in self._ports.keys() - wanted.keys():
            self._ports.pop(address).cut()
        failures: dict[Address, str] = {}
        binds = 0
        for address, listener in wanted.items():
            port = self._ports.get(address)
            if port is not None:
                port.listener = listener
                continue
            try:
                self._ports[address] = _Port(self, address, listener)
            except OSError as error:
                self.bind_failures += 1
                failures[address] = error.strerror or str(error)
            binds += 1
            if binds % _BINDS_AT_ONCE == 0:
                await asyncio.sleep(0)  # thousands at the start must not delay all other tasks
        return failures

    async def close(self) -> None:
        """Close all listeners and cut all connections."""
        await self.update({})

    @property
    def listeners(self) -> int:
        """How many are open."""
        return len(self._ports)

    def allows_one_more(self, held: int) -> bool:
        """Whether a listener that has so many connections may have another.

        It may while it holds fewer than are free. So one listener gets half of them, the second
        one half of what is left, and there always is something left.
        """
        return held < min(self._most, share()) - self.connections


class _Port(Generic[ListenerT, PinT]):
    """A listening socket, and the connections that came through it."""

    def __init__(
        self, proxy: LocalProxy[ListenerT, PinT], address: Address, listener: ListenerT
    ) -> None:
        self.listener = listener
        self.connections: set[_Connection] = set()
        self._proxy = proxy
        self._bursts = Bursts()
        self._pin: PinT | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._socket = socket.create_server(address, family=_family(address), backlog=_BACKLOG)
        leave_the_last(self._socket)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)

    def cut(self) -> None:
        """Listen no more, and cut the connections."""
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for connection in tuple(self.connections):
            connection.cut()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                client, _ = self._socket.accept()
                leave_the_last(client)
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: the client stays in the queue, and asking again
                # at once would only burn the processor.
                self._complain("Cannot accept a connection to a local node port", err=error)
                self._loop.remove_reader(self._socket)
                listen = partial(self._loop.add_reader, self._socket, self._accept)
                self._rest = self._loop.call_later(_REST_SECONDS, listen)
                return
            if self._proxy.allows_one_more(len(self.connections)):
                self._relay(client)
            else:
                self._complain("Too many connections to a local node port, new ones are reset")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()

    def _complain(self, message: str, err: OSError | None = None) -> None:
        """Say it once in a burst: clients may try without end."""
        if self._bursts.begins(self._loop.time()):
            where = join(*self._socket.getsockname()[:2])
            klog.error(message, err=err, at=where, connections=len(self.connections))

    def _relay(self, client: socket.socket) -> None:
        now, chance = self._loop.time(), random.random()  # noqa: S311  # balances, no secret
        target, self._pin = self._proxy.choose(self.listener, self._pin, now, chance)
        connection = _Connection(client, target, self._over)
        self.connections.add(connection)
        self._proxy.connections += 1
        connection.dial(self._proxy.connect_seconds)

    def _over(self, connection: "_Connection") -> None:
        self.connections.remove(connection)
        self._proxy.connections -= 1


class _Connection:
    """A client's socket and the target's, and the bytes between them.

    When one side breaks the other sees a reset: half an answer must not look like a whole one.
    """

    def __init__(
        self, client: socket.socket, target: Address, over: Callable[["_Connection"], None]
    ) -> None:
        self._client = client
        self._target = target
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._sockets = [client]
        self._deadline: asyncio.TimerHandle | None = None
        self._flows: tuple[_Flow, ...] = ()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def dial(self, seconds: float) -> None:
        """Connect to the target within that time, then relay."""
        try:
            backend = socket.socket(_family(self._target), socket.SOCK_STREAM)
            leave_the_last(backend)
            self._sockets.append(backend)
            backend.setblocking(False)
            for level, option, value in _BACKEND_OPTIONS:
                backend.setsockopt(level, option, value)
            with contextlib.suppress(BlockingIOError):  # it is under way
                backend.connect(self._target)
        except OSError as error:
            self._fail(error)
            return
        self._deadline = self._loop.call_later(seconds, self._fail, _os_error(errno.ETIMEDOUT))
        self._loop.add_writer(backend, self._dialled, backend)

    def cut(self) -> None:
        """End it now; both sides see a reset."""
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _dialled(self, backend: socket.socket) -> None:
        number = backend.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._fail(_os_error(number))
            return
        self._forget_deadline()
        self._loop.remove_writer(backend)
        self._flows = (
            _Flow(self._client, backend, self._ended),
            _Flow(backend, self._client, self._ended),
        )

    def _fail(self, error: OSError) -> None:
        klog.info(
            "Cannot connect to the endpoint, the client of the local node port is cut off",
            v=2,
            err=error,
            endpoint=join(*self._target),
            at=join(*self._client.getsockname()[:2]),
        )
        self.cut()

    def _ended(self, error: OSError | None) -> None:
        """One of the flows came to its end."""
        if error is not None:
            self.cut()
        elif all(flow.is_over for flow in self._flows):
            self._close()

    def _close(self) -> None:
        self._forget_deadline()
        for each in self._sockets:
            self._loop.remove_reader(each)
            self._loop.remove_writer(each)
            each.close()
        self._flows = ()  # they know this connection: without the circle both go at once
        self._over(self)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class _Flow:
    """One direction: what the source sends, the sink gets, and then the end of it.

    It holds one chunk at most: while the sink is full the source is not read, and the kernel
    makes the sender wait.
    """

    def __init__(
        self, source: socket.socket, sink: socket.socket, ended: Callable[[OSError | None], None]
    ) -> None:
        self.is_over = False
        self._source = source
        self._sink = sink
        self._ended = ended
        self._rest = _NOTHING
        self._waits_for_sink = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(source, self._move)

    def _move(self) -> None:
        """The source has something, or the sink has room."""
        try:
            if not self._rest:
                self._rest = memoryview(self._source.recv(_CHUNK))
            if not self._rest:  # the end of the source: the sink gets it, and may go on sending
                self._loop.remove_reader(self._source)
                self._sink.shutdown(socket.SHUT_WR)
                self.is_over = True
                self._ended(None)
                return
            sent = self._sink.send(self._rest)
            # An empty view of a chunk would keep all of the chunk.
            self._rest = self._rest[sent:] or _NOTHING
        except BlockingIOError:
            pass
        except OSError as error:
            self._ended(error)
            return
        if self._rest and not self._waits_for_sink:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._move)
        elif self._waits_for_sink and not self._rest:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._move)
        self._waits_for_sink = bool(self._rest)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
