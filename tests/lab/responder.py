"""One process that answers in every namespace: the host, its address, and the client's.

A TCP or SCTP client gets that line at once, and then an echo of everything that it sends; a
datagram gets it as its answer. Sentinels are answered when nothing else is left to read: whatever
arrived before them was answered before. A program, started by `Responders`; it ends when its
standard input does. For each line there it resets all connections.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from kubeproxy.base.inet import Protocol
from lab.namespaces import entered

_PKTINFO = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
_FREEBIND = ((socket.IPPROTO_IP, 15), (socket.IPPROTO_IPV6, 78))  # IP_FREEBIND, IPV6_FREEBIND
_ADDRESS = 16  # bytes of in6_pktinfo that are the address
_MAPPED = "::ffff:"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Peer = tuple[str, int, int, int]


def answer(who: str, at: tuple[str, int], saw: tuple[str, int]) -> bytes:
    """The line that a client gets."""
    words = (who, _plain(at[0]), at[1], _plain(saw[0]), saw[1])
    return (" ".join(map(str, words)) + "\n").encode()


def _plain(address: str) -> str:
    return address.removeprefix(_MAPPED)


class Answering:
    """The sockets, and what to do when one of them has something."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._reactions: dict[int, Callable[[], None]] = {}
        self._connections: set[socket.socket] = set()
        self._sentinels: list[Callable[[], None]] = []
        """The answers to sentinels, still to be sent."""

    def add(self, who: str, port: int) -> None:
        """Answer TCP and UDP on a port of the namespace in which this thread is."""
        listener = socket.create_server(
            ("::", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True
        )
        listener.setblocking(False)
        self._watch(listener, lambda: self._accept(who, listener))
        datagrams = _datagrams(port)
        self._watch(datagrams, lambda: _reply(who, datagrams, port))

    def add_sentinels(self, port: int) -> None:
        """Answer sentinels on a port of the namespace in which this thread is."""
        datagrams = _datagrams(port)
        self._watch(datagrams, lambda: self._hold(datagrams))

    def add_sctp(self, who: str, address: str, port: int) -> None:
        """Answer SCTP at one address: with several, an association would use all of them."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, Protocol.SCTP)
        listener.bind((address, port))
        listener.listen(1024)
        listener.setblocking(False)
        self._watch(listener, lambda: self._accept(who, listener))

    def serve(self, control: int) -> None:
        """Answer until the control descriptor ends; for each line there, reset all connections."""
        self._poll.register(control, select.EPOLLIN)
        while True:
            ready = self._poll.poll(0 if self._sentinels else None)
            if not ready:
                for answer_it in self._sentinels:
                    answer_it()
                self._sentinels.clear()
            for fd, _ in ready:
                if fd == control:
                    if not os.read(control, 4096):
                        return
                    self._reset()
                    print("done", flush=True)  # noqa: T201  # the answer to the line
                elif fd in self._reactions:
                    self._reactions[fd]()

    def _watch(self, watched: socket.socket, reaction: Callable[[], None]) -> None:
        self._reactions[watched.fileno()] = reaction
        self._poll.register(watched.fileno(), select.EPOLLIN)

    def _hold(self, datagrams: socket.socket) -> None:
        with contextlib.suppress(OSError):  # an earlier answer was refused
            data, at, peer = _receive(datagrams)
            self._sentinels.append(lambda: _send(datagrams, data, at, peer))

    def _accept(self, who: str, listener: socket.socket) -> None:
        try:
            connection, peer = listener.accept()
        except BlockingIOError:  # the client is gone already
            return
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._connections.add(connection)
        try:
            connection.send(answer(who, connection.getsockname()[:2], peer[:2]))
        except OSError:
            self._close(connection)
            return
        self._watch(connection, lambda: self._echo(connection))

    def _echo(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
            if data:
                connection.sendall(data)
                return
        except OSError:
            pass  # a reset is an end like any other
        self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._reactions.pop(connection.fileno(), None)
        self._connections.discard(connection)
        connection.close()

    def _reset(self) -> None:
        for connection in list(self._connections):
            self._close(connection)


def _datagrams(port: int) -> socket.socket:
    """A socket for datagrams to any address that is routed here."""
    opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    for option in _FREEBIND:  # to answer from any of these addresses
        opened.setsockopt(*option, 1)
    opened.bind(("::", port))
    opened.setblocking(False)
    return opened


def _receive(datagrams: socket.socket) -> tuple[bytes, bytes, Peer]:
    """A datagram, the packed address to which it came, and who sent it."""
    received, ancillary, _, peer = datagrams.recvmsg(65536, 64)
    packed = next(data for level, kind, data in ancillary if (level, kind) == _PKTINFO)
    return received, packed[:_ADDRESS], peer


def _send(datagrams: socket.socket, data: bytes, at: bytes, peer: Peer) -> None:
    """Send a datagram from that address."""
    with contextlib.suppress(OSError):  # an earlier answer was refused, or the peer is gone
        datagrams.sendmsg([data], [(*_PKTINFO, at + bytes(4))], 0, peer)


def _reply(who: str, datagrams: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):  # an earlier answer was refused
        _, at, peer = _receive(datagrams)
        line = answer(who, (socket.inet_ntop(socket.AF_INET6, at), port), peer[:2])
        _send(datagrams, line, at, peer)


def main(configuration: str) -> None:
    """Answer as the configuration says: (who, namespace's path, ports, addresses for SCTP).

    After them come the paths of namespaces that answer sentinels, and the port for that.
    """
    answering = Answering()
    posts, sentinels, sentinel_port = json.loads(configuration)
    for path in sentinels:
        with entered(Path(path)):
            answering.add_sentinels(sentinel_port)
    for who, path, ports, addresses in posts:
        with entered(Path(path)):
            for port in ports:
                answering.add(who, port)
                for address in addresses:
                    answering.add_sctp(who, address, port)
    print("ready", flush=True)  # noqa: T201  # what the starter waits for
    answering.serve(sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1])
