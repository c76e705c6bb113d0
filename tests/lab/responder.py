"""One process that answers in every namespace: who was reached, at which address, seen from whom.

A TCP or SCTP client gets that line at once, and then an echo of everything that it sends; a
datagram gets it as its answer. A program, started by `Responders`; it ends when its standard input
does.
"""

import json
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from kubeproxy.base.inet import Protocol
from lab.namespaces import entered

_PKTINFO = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
_FREEBIND = ((socket.IPPROTO_IP, 15), (socket.IPPROTO_IPV6, 78))  # IP_FREEBIND, IPV6_FREEBIND
_ANSWERED_FROM = 16  # bytes of in6_pktinfo that are the address
_MAPPED = "::ffff:"


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

    def add(self, who: str, port: int) -> None:
        """Answer TCP and UDP on a port of the namespace in which this thread is."""
        listener = socket.create_server(
            ("::", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True
        )
        listener.setblocking(False)
        self._watch(listener, lambda: self._accept(who, listener))
        datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        for option in _FREEBIND:  # to answer from any address that is routed here
            datagrams.setsockopt(*option, 1)
        datagrams.bind(("::", port))
        datagrams.setblocking(False)
        self._watch(datagrams, lambda: _reply(who, datagrams, port))

    def add_sctp(self, who: str, address: str, port: int) -> None:
        """Answer SCTP at one address: with several, an association would use all of them."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, Protocol.SCTP)
        listener.bind((address, port))
        listener.listen(1024)
        listener.setblocking(False)
        self._watch(listener, lambda: self._accept(who, listener))

    def serve(self, control: int) -> None:
        """Answer until the control descriptor has nothing more to come."""
        self._poll.register(control, select.EPOLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == control:
                    return
                self._reactions[fd]()

    def _watch(self, watched: socket.socket, reaction: Callable[[], None]) -> None:
        self._reactions[watched.fileno()] = reaction
        self._poll.register(watched.fileno(), select.EPOLLIN)

    def _accept(self, who: str, listener: socket.socket) -> None:
        try:
            connection, peer = listener.accept()
        except BlockingIOError:  # the client is gone already
            return
        connection.setblocking(False)
        try:
            connection.send(answer(who, connection.getsockname()[:2], peer[:2]))
        except OSError:
            connection.close()
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
        del self._reactions[connection.fileno()]
        connection.close()


def _reply(who: str, datagrams: socket.socket, port: int) -> None:
    """Answer a datagram from the very address to which it came."""
    try:
        _, ancillary, _, peer = datagrams.recvmsg(65536, 64)
        packed = next(data for level, kind, data in ancillary if (level, kind) == _PKTINFO)
        at = socket.inet_ntop(socket.AF_INET6, packed[:_ANSWERED_FROM])
        from_there = packed[:_ANSWERED_FROM] + bytes(len(packed) - _ANSWERED_FROM)
        line = answer(who, (at, port), peer[:2])
        datagrams.sendmsg([line], [(*_PKTINFO, from_there)], 0, peer)
    except OSError:
        return  # an earlier answer was refused, or nobody is there to take this one


def main(configuration: str) -> None:
    """Answer as the configuration says: (who, namespace's path, ports, addresses for SCTP)."""
    answering = Answering()
    for who, path, ports, addresses in json.loads(configuration):
        with entered(Path(path)):
            for port in ports:
                answering.add(who, port)
                for address in addresses:
                    answering.add_sctp(who, address, port)
    print("ready", flush=True)  # noqa: T201  # what the starter waits for
    answering.serve(sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1])
