"""Connections that stay: a TCP echo and a flow of datagrams, through whatever was dialled."""

import contextlib
import itertools
import select
import socket

from kubeproxy.base.inet import family_of
from lab.dialer import GRACE, outcome_of
from lab.network import Network
from lab.outcome import Fate, Outcome, Peer, read_answer
from lab.relayed import Settle
from lab.sentinel import send_sentinels

_SECONDS = 60.0
_HOPS = {
    False: (socket.IPPROTO_IP, socket.IP_TTL),
    True: (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS),
}


class Connection:
    """An established connection of TCP or SCTP to a responder, which echoes."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._words = itertools.count()
        self.sent_from = Peer(*opened.getsockname()[:2])
        try:
            line = self._receive(b"\n")
        except BaseException:
            opened.close()
            raise
        self.answer: Outcome = read_answer(line, self.sent_from)

    def talk(self) -> None:
        """Send something and get it back, or fail."""
        word = f"{next(self._words)} still there?\n".encode()
        self._socket.send(word)
        got = self._receive(b"\n")
        assert got == word, f"{self}: sent {word!r}, got {got!r}"

    def echo(self, data: bytes) -> None:
        """Send data and get it back, or fail."""
        self._socket.sendall(data)
        got = b""
        while len(got) < len(data):
            assert _is_readable(self._socket, _SECONDS), f"{self}: {len(got)} of {len(data)} bytes"
            more = self._socket.recv(65536)
            assert more, f"{self}: closed by the other side"
            got += more
        assert got == data, f"{self}: got other data"

    def wait_reset(self) -> None:
        """Say nothing until the connection is reset, or fail."""
        assert _is_readable(self._socket, _SECONDS), f"{self}: no reset within {_SECONDS:g} s"
        with contextlib.suppress(ConnectionResetError):
            got = self._socket.recv(4096)
            raise AssertionError(f"{self}: got {got!r}")

    def close(self) -> None:
        self._socket.close()

    def __str__(self) -> str:
        return f"{self.sent_from} to {Peer(*self._socket.getpeername()[:2])}, {self.answer}"

    def _receive(self, until: bytes) -> bytes:
        received = b""
        while not received.endswith(until):
            assert _is_readable(self._socket, _SECONDS), f"no answer within {_SECONDS:g} s"
            more = self._socket.recv(4096)
            assert more, f"closed by the other side after {received!r}"
            received += more
        return received


class Flow:
    """Datagrams from one port: to the kernel they are one connection."""

    def __init__(
        self, opened: socket.socket, network: Network, source: str, settle: Settle = send_sentinels
    ) -> None:
        self._settle = settle
        self._socket = opened
        self._network = network
        self._origin = source, family_of(opened.getsockname()[0])
        self.sent_from = Peer(*opened.getsockname()[:2])

    def ask(self) -> Outcome:
        """What becomes of one more datagram."""
        with self._network.on_one_cpu():
            with contextlib.suppress(PermissionError, ConnectionRefusedError):
                self._socket.send(b"who")
            if not _is_readable(self._socket, GRACE):
                self._settle(self._network, [self._origin])
            if not _is_readable(self._socket, 0.0):
                return Outcome(Fate.SILENT, self.sent_from)
            return outcome_of(self._socket, self.sent_from)

    def hop_limit(self, hops: int) -> None:
        """Let what is sent from now on take so many hops at most."""
        is_ipv6 = self._socket.family == socket.AF_INET6
        level, name = _HOPS[is_ipv6]
        self._socket.setsockopt(level, name, hops)

    def close(self) -> None:
        self._socket.close()


def _is_readable(opened: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
