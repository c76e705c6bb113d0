"""UDP: what a client sends goes to one endpoint, by a socket of the client's own, and back."""

import contextlib
import select
import socket
from typing import Final, NamedTuple

from kubeproxy.dataplane.userspace.choosing import Target
from kubeproxy.dataplane.userspace.loop import Loop
from kubeproxy.dataplane.userspace.relay import Origin

_MOST_BYTES: Final = 1 << 16
_AT_ONCE: Final = 64
_DATAGRAM: Final = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_INFO_BYTES: Final = socket.CMSG_SPACE(20)
IP_PKTINFO: Final = 8
"""<linux/in.h>; the socket module has only that of IPv6."""
READ: Final = select.EPOLLIN
"""Level-triggered: after some datagrams others have their turn."""


Ancillary = tuple[tuple[int, int, bytes], ...]


class Sender(NamedTuple):
    """A client, and to which of the node's addresses it sent."""

    address: tuple[str, int]
    ancillary: Ancillary


def answering(ancillary: Ancillary) -> Ancillary:
    """What makes an answer come from the address that the client sent to, by any interface."""
    return tuple(
        (level, kind, bytes(4) + data[4:] if level == socket.IPPROTO_IP else data[:16] + bytes(4))
        for level, kind, data in ancillary
    )


class Session:
    """The endpoint of a client, and the socket that is connected to it."""

    __slots__ = ("answering", "sender", "socket", "target", "used")

    def __init__(self, sender: Sender, target: Target, opened: socket.socket) -> None:
        self.sender = sender
        self.answering = answering(sender.ancillary)
        self.target = target
        self.socket = opened
        self.used = 0.0


def want_destinations(listener: socket.socket) -> None:
    """Let a socket say to which of the node's addresses each datagram came."""
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        listener.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


class Sessions:
    """The clients of one UDP listener.

    A client that sent and got nothing for `idle_seconds` is forgotten; its next datagram may go to
    another endpoint.
    """

    def __init__(
        self,
        loop: Loop,
        origin: Origin,
        listener: socket.socket,
        idle_seconds: float,
    ) -> None:
        self._loop = loop
        self._origin = origin
        self._listener = listener
        self._idle_seconds = idle_seconds
        # The first is the one that was not used for longest.
        self._sessions: dict[Sender, Session] = {}
        self._timed = False
        loop.watch(listener.fileno(), self._from_clients, READ)

    def close(self) -> None:
        """Forget the listener and all clients."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        for session in tuple(self._sessions.values()):
            self._forget(session)

    def keep(self, targets: frozenset[Target]) -> None:
        """Forget the clients of other endpoints than these."""
        for session in tuple(self._sessions.values()):
            if session.target not in targets:
                self._forget(session)

    def _from_clients(self, _events: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, ancillary, _flags, address = self._listener.recvmsg(_MOST_BYTES, _INFO_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # what a client answered to an answer
            sender = Sender(address, tuple(ancillary))
            session = self._sessions.get(sender) or self._open(sender)
            if session is None:
                continue
            self._touch(session)
            try:
                session.socket.send(data)
            except BlockingIOError:
                pass  # its buffer is full: the datagram is lost, as on any way
            except OSError as error:
                self._lost(session, error)

    def _open(self, sender: Sender) -> Session | None:
        """A session for a new client; None when there is no endpoint or no room."""
        target = self._origin.choose(sender.address[0])
        if target is None or not self._origin.take():
            return None
        opened = self._connect(sender, target)
        if opened is None:
            self._origin.ended()
            return None
        session = Session(sender, target, opened)
        self._loop.watch(opened.fileno(), lambda _events: self._from_endpoint(session), READ)
        self._origin.connected(target)
        if not self._timed:
            self._timed = True
            self._loop.later(self._idle_seconds, self._forget_idle)
        return session

    def _connect(self, sender: Sender, target: Target) -> socket.socket | None:
        opened = None
        try:
            family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
            opened = socket.socket(family, _DATAGRAM)
            opened.connect(target)
        except OSError as error:
            if opened is not None:
                opened.close()
            self._origin.failed(sender.address[0], target, error)
            return None
        return opened

    def _from_endpoint(self, session: Session) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = session.socket.recv(_MOST_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(session, error)
                return
            self._touch(session)
            with contextlib.suppress(OSError):  # the client may be gone: it is only a datagram
                self._listener.sendmsg([data], session.answering, 0, session.sender.address)

    def _touch(self, session: Session) -> None:
        session.used = self._loop.now
        self._sessions.pop(session.sender, None)
        self._sessions[session.sender] = session

    def _lost(self, session: Session, error: OSError) -> None:
        """The endpoint refuses: the next datagram goes to another one."""
        self._origin.failed(session.sender.address[0], session.target, error)
        self._forget(session)

    def _forget(self, session: Session) -> None:
        if self._sessions.pop(session.sender, None) is None:
            return
        self._loop.forget(session.socket.fileno())
        session.socket.close()
        self._origin.ended()

    def _forget_idle(self) -> None:
        limit = self._loop.now - self._idle_seconds
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used > limit:
                self._loop.later(session.used - limit, self._forget_idle)
                return
            self._forget(session)
        self._timed = False
