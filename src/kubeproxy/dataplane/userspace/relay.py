"""TCP: a client's connection and the one to its endpoint, and the bytes between them."""

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
from enum import Enum
from functools import partial
from typing import Final, Protocol

from kubeproxy.dataplane.userspace.choosing import Target
from kubeproxy.dataplane.userspace.loop import Loop, Timer

DIAL_SECONDS: Final = (0.25, 0.5, 1.0, 2.0)
"""How long an endpoint has to accept, at the first try and at each further one."""
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: close() discards what was not sent, and resets."""
_GENTLE: Final = struct.pack("ii", 0, 0)
OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # A side that vanished closes nothing: probe after 15 s, give up after 150 s.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
    # What is left open when this process ends, by whatever means, was not at its end.
    (socket.SOL_SOCKET, socket.SO_LINGER, RESET),
)
"""Options of both sockets. Those of clients have them from the listener."""
_CHUNK: Final = 1 << 16
_SPLICED_AFTER: Final = 1 << 18
_PIPE_BYTES: Final = 1 << 20
_TURN_BYTES: Final = 1 << 22
_SPLICE: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_STREAM: Final = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_ENDING: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_NOTHING: Final = memoryview(b"")


class Origin(Protocol):
    """Where connections come from: the listener, as they see it."""

    def take(self) -> bool:
        """Whether there is room for one connection more; `ended` gives it back."""
        ...

    def choose(self, client: str) -> Target | None:
        """The endpoint for a client; None when there is none any more."""
        ...

    def connected(self, target: Target) -> None:
        """A connection to the endpoint stands."""
        ...

    def failed(self, client: str, target: Target, error: OSError) -> None:
        """The endpoint does not accept connections."""
        ...

    def ended(self) -> None:
        """A connection is over, however it went."""
        ...


class Pipes:
    """The pipes of a process: each takes two descriptors, so there are not any number of them."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self) -> tuple[int, int] | None:
        """A pipe, as the end to read and the end to write; None when there is none left."""
        if not self._left:
            return None
        try:
            ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        self._left -= 1
        with contextlib.suppress(OSError):  # a user may have so much memory for pipes: then less
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return ends

    def give_back(self, ends: tuple[int, int]) -> None:
        """Close a pipe."""
        for end in ends:
            os.close(end)
        self._left += 1


class Moved(Enum):
    """Why a flow does not go on."""

    WAITS = "until the source has something, or the sink has room"
    YIELDS = "it could: others have their turn first"
    OVER = "the source has ended, and the sink knows"


class Flow:
    """One direction: what the source sends, the sink gets, and then the end of it.

    The first bytes are copied. Where there are many, the kernel moves the rest through a pipe.
    While the sink is full the source is not read, so that the kernel makes the sender wait.
    """

    __slots__ = ("_copied", "_held", "_pipe", "_pipes", "_rest", "_sink", "_source", "over")

    def __init__(self, source: socket.socket, sink: socket.socket, pipes: Pipes) -> None:
        self.over = False
        self._source = source
        self._sink = sink
        self._pipes = pipes
        self._rest = _NOTHING
        self._copied = 0
        self._pipe: tuple[int, int] | None = None
        self._held = 0

    def move(self, *, ending: bool) -> Moved:
        """Move what there is; `ending` says that the end of the source may be there as well."""
        if self.over:
            return Moved.OVER
        try:
            return self._copy(ending=ending) if self._pipe is None else self._splice(self._pipe)
        except BlockingIOError:
            return Moved.WAITS

    def close(self) -> None:
        """Give the pipe back."""
        if self._pipe is not None:
            self._pipes.give_back(self._pipe)
            self._pipe = None

    def _copy(self, *, ending: bool) -> Moved:
        source, sink = self._source, self._sink
        while True:
            if not self._rest:
                if self._copied >= _SPLICED_AFTER:
                    self._copied = 0  # so that it is not asked for with every chunk
                    self._pipe = self._pipes.take()
                    if self._pipe is not None:
                        return self._splice(self._pipe)
                data = source.recv(_CHUNK)
                size = len(data)
                if not size:
                    return self._end()
                self._copied += size
                try:
                    sent = sink.send(data)
                except BlockingIOError:
                    self._rest = memoryview(data)
                    raise
                if sent < size:
                    self._rest = memoryview(data)[sent:]
                elif size < _CHUNK and not ending:
                    return Moved.WAITS  # the source is empty: it need not be asked
            else:
                sent = sink.send(self._rest)
                # An empty view of a chunk would keep all of the chunk.
                self._rest = self._rest[sent:] or _NOTHING

    def _splice(self, pipe: tuple[int, int]) -> Moved:
        source, sink = self._source.fileno(), self._sink.fileno()
        moved = 0
        while moved < _TURN_BYTES:
            if not self._held:
                self._held = os.splice(source, pipe[1], _PIPE_BYTES, flags=_SPLICE)
                if not self._held:
                    return self._end()
            sent = os.splice(pipe[0], sink, self._held, flags=_SPLICE)
            self._held -= sent
            moved += sent
        return Moved.YIELDS

    def _end(self) -> Moved:
        self.over = True
        self._sink.shutdown(socket.SHUT_WR)
        self.close()
        return Moved.OVER


class Relay:
    """A client's connection: an endpoint is dialled, then bytes are relayed until both have ended.

    A side that ends its half is passed on as just that; one that breaks off is a reset for the
    other, because half an answer must not look like a whole one.
    """

    __slots__ = (
        "_client",
        "_flows",
        "_from",
        "_loop",
        "_origin",
        "_pipes",
        "_server",
        "_target",
        "_timer",
        "_tries",
        "_yielded",
    )

    def __init__(
        self, loop: Loop, pipes: Pipes, origin: Origin, client: socket.socket, address: str
    ) -> None:
        self._loop = loop
        self._pipes = pipes
        self._origin = origin
        self._client = client
        self._from = address
        self._server: socket.socket | None = None
        self._target: Target = ("", 0)
        self._timer: Timer | None = None
        self._tries = 0
        self._flows: tuple[Flow, ...] = ()
        self._yielded = False

    def dial(self) -> None:
        """Connect to an endpoint; when that fails or takes too long, to the next one."""
        while self._tries < len(DIAL_SECONDS):
            target = self._origin.choose(self._from)
            if target is None:
                break
            self._target = target
            number = self._connect(DIAL_SECONDS[self._tries])
            self._tries += 1
            if not number:
                return
            self._origin.failed(self._from, target, _os_error(number))
        self.reset()

    def _connect(self, seconds: float) -> int:
        """Begin to connect; the number of the error if that fails at once."""
        family = socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET
        try:
            server = socket.socket(family, _STREAM)
        except OSError as error:
            return error.errno or errno.EMFILE
        number = server.connect_ex(self._target)
        if number not in {0, errno.EINPROGRESS}:
            server.close()
            return number
        self._server = server
        self._loop.watch(server.fileno(), self._happened)
        if number:
            too_late = partial(self._try_next, server, errno.ETIMEDOUT)
            self._timer = self._loop.later(seconds, too_late)
        else:
            self._connected(server)
        return 0

    def _happened(self, events: int) -> None:
        """Something happened to one of the two sockets."""
        if self._flows:
            self._move(events)
            return
        if (server := self._server) is None:
            return
        number = server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._try_next(server, number)
        elif events & select.EPOLLOUT:
            if self._timer is not None:
                self._timer.cancel()
            self._connected(server)

    def _connected(self, server: socket.socket) -> None:
        client = self._client
        for level, option, value in OPTIONS:
            server.setsockopt(level, option, value)
        self._flows = (Flow(client, server, self._pipes), Flow(server, client, self._pipes))
        self._origin.connected(self._target)
        # What the client sent meanwhile is an event of its own.
        self._loop.watch(client.fileno(), self._happened)

    def _try_next(self, server: socket.socket, number: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.forget(server.fileno())
        server.close()
        self._server = None
        self._origin.failed(self._from, self._target, _os_error(number))
        self.dial()

    def _move(self, events: int) -> None:
        ending = bool(events & _ENDING)
        try:
            results = [flow.move(ending=ending) for flow in self._flows]
        except OSError:
            self.reset()
            return
        if all(flow.over for flow in self._flows):
            self._end()
        elif events & select.EPOLLERR:
            self.reset()
        elif Moved.YIELDS in results and not self._yielded:
            self._yielded = True
            self._loop.soon(self._go_on)

    def _go_on(self) -> None:
        self._yielded = False
        if self._flows:
            self._move(_ENDING & ~select.EPOLLERR)

    def _end(self) -> None:
        """Both sides have ended: what they still have to get is the kernel's business."""
        for each in (self._client, self._server):
            if each is not None:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GENTLE)
        self.reset()

    def reset(self) -> None:
        """End it now; a side that is not at its end sees a reset, by its options."""
        for flow in self._flows:
            flow.close()
        self._flows = ()
        for each in (self._client, self._server):
            if each is not None:
                self._loop.forget(each.fileno())
                each.close()
        self._server = None
        self._origin.ended()


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
