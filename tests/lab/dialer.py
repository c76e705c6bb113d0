"""Sends first packets, hundreds at once, from any host of the lab, and says what became of each.

Sources bind their port themselves and never take one twice within a few ten thousand: a
conntrack entry that is left over would decide about a packet that is to be judged anew.
"""

import errno
import heapq
import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from kubeproxy.base.inet import Protocol
from lab.network import Network
from lab.outcome import Fate, Outcome, Peer, Probe, read_answer
from lab.plan import HOSTS

IN_FLIGHT = 100  # datagrams that fit into the buffer of one socket
_PORTS = (33000, 61000)  # above the node ports
_RECVERR = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),  # IP_RECVERR
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25),  # IPV6_RECVERR
}
_EXTENDED_ERROR = struct.Struct("=IBBBxII")  # sock_extended_err: errno, origin, type, code
_PORT_UNREACHABLE = {(2, 3, 3), (3, 1, 4)}  # ICMP and ICMPv6: (origin, type, code)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # leaves no TIME_WAIT behind
_KINDS = {
    Protocol.TCP: (socket.SOCK_STREAM, 0),
    Protocol.UDP: (socket.SOCK_DGRAM, 0),
    Protocol.SCTP: (socket.SOCK_STREAM, Protocol.SCTP),
}
_ECHO = {
    socket.AF_INET: ((socket.SOCK_DGRAM, socket.IPPROTO_ICMP), b"\x08" + bytes(7)),
    socket.AF_INET6: ((socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6), b"\x80" + bytes(7)),
}


class Dialer:
    """Opens sockets in the namespaces of the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ports: dict[str, Iterator[int]] = {}

    def dial(self, probes: Sequence[Probe]) -> list[Outcome]:
        """The outcome of each probe, in order."""
        outcomes: dict[int, Outcome] = {}
        waiting = enumerate(probes)
        with _Flights() as flights:
            while len(outcomes) < len(probes):
                for number, probe in itertools.islice(waiting, IN_FLIGHT - len(flights)):
                    outcome = self._launch(number, probe, flights)
                    if outcome is not None:
                        outcomes[number] = outcome
                outcomes.update(flights.land())
        return [outcomes[number] for number in range(len(probes))]

    def open(self, probe: Probe, port: int = 0) -> socket.socket:
        """A socket of the probe's source, bound (0: anywhere), and connected or about to be."""
        family = socket.AF_INET6 if ":" in probe.destination else socket.AF_INET
        kind = _KINDS[probe.protocol] if probe.protocol else _ECHO[family][0]
        with self._network.of(HOSTS[probe.source]).entered():
            opened = socket.socket(family, *kind)
        try:
            self._connect(opened, probe, port)
        except OSError:
            opened.close()
            raise
        return opened

    def _connect(self, opened: socket.socket, probe: Probe, port: int) -> None:
        opened.setblocking(False)
        opened.setsockopt(*_RECVERR[opened.family], 1)
        if opened.type is socket.SOCK_STREAM:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        if port:
            opened.bind((probe.address, port))
        else:
            self._bind(opened, probe)
        error = opened.connect_ex((probe.destination, probe.port))
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, os.strerror(error))

    def _bind(self, opened: socket.socket, probe: Probe) -> None:
        if probe.protocol is None:
            opened.bind((probe.address, 0))
            return
        ports = self._ports.setdefault(probe.source, itertools.cycle(range(*_PORTS)))
        for port in ports:
            try:
                opened.bind((probe.address, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return

    def _launch(self, number: int, probe: Probe, flights: "_Flights") -> Outcome | None:
        """Send it off; an outcome when that alone has decided already."""
        nowhere = Peer(probe.address, 0)
        try:
            opened = self.open(probe)
        except OSError as error:
            return Outcome(Fate.FAILED, nowhere, detail=str(error))
        flight = _Flight(number, probe, opened)
        try:
            if probe.protocol is None:
                opened.send(_ECHO[opened.family][1])
            elif probe.protocol is Protocol.UDP:
                opened.send(b"who")
        except PermissionError:  # how a drop on the way out looks; a reject too, which ICMP tells
            pass
        except OSError as error:
            opened.close()
            return Outcome(Fate.FAILED, flight.sent_from, detail=str(error))
        flights.add(flight)
        return None


class _Flight:
    """A probe that is under way."""

    def __init__(self, number: int, probe: Probe, opened: socket.socket) -> None:
        self.number = number
        self.socket = opened
        self.deadline = time.monotonic() + probe.patience
        self.sent_from = Peer(*opened.getsockname()[:2])
        self._probe = probe

    def land(self) -> Outcome:
        """What the socket has to say."""
        if self._probe.protocol is None:
            at = Peer(self._probe.destination, 0)
            echoed = Outcome(Fate.ANSWERED, self.sent_from, "echo", at, self.sent_from)
            return _icmp_error(self.socket, self.sent_from) or echoed
        return outcome_of(self.socket, self.sent_from)


class _Flights:
    """All probes that are under way."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._flights: dict[int, _Flight] = {}
        self._deadlines: list[tuple[float, int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for flight in self._flights.values():
            flight.socket.close()
        self._poll.close()

    def __len__(self) -> int:
        return len(self._flights)

    def add(self, flight: _Flight) -> None:
        fd = flight.socket.fileno()
        self._flights[fd] = flight
        self._poll.register(fd, select.EPOLLIN)
        heapq.heappush(self._deadlines, (flight.deadline, flight.number, fd))

    def land(self) -> Iterable[tuple[int, Outcome]]:
        """Wait until something happens; the outcomes of what did."""
        if not self._flights:
            return []
        landed = [self._landed(fd) for fd, _ in self._poll.poll(self._next_deadline())]
        return [*landed, *self._given_up()]

    def _landed(self, fd: int) -> tuple[int, Outcome]:
        flight = self._flights.pop(fd)
        outcome = flight.land()
        flight.socket.close()
        return flight.number, outcome

    def _is_flying(self, number: int, fd: int) -> bool:
        return fd in self._flights and self._flights[fd].number == number

    def _next_deadline(self) -> float:
        while not self._is_flying(*self._deadlines[0][1:]):
            heapq.heappop(self._deadlines)
        return max(0.0, self._deadlines[0][0] - time.monotonic())

    def _given_up(self) -> Iterator[tuple[int, Outcome]]:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number, fd = heapq.heappop(self._deadlines)
            if self._is_flying(number, fd):
                flight = self._flights.pop(fd)
                flight.socket.close()
                yield number, Outcome(Fate.SILENT, flight.sent_from)


def outcome_of(opened: socket.socket, sent_from: Peer) -> Outcome:
    """What a socket that can be read has to say."""
    unreachable = _icmp_error(opened, sent_from)
    if unreachable is not None:
        return unreachable
    try:
        data = opened.recv(4096)
    except ConnectionRefusedError:
        return Outcome(Fate.REFUSED, sent_from)
    except OSError as error:
        return Outcome(Fate.FAILED, sent_from, detail=str(error))
    if not data:
        return Outcome(Fate.FAILED, sent_from, detail="closed without a word")
    return read_answer(data, sent_from)


def _icmp_error(opened: socket.socket, sent_from: Peer) -> Outcome | None:
    """What the ICMP error says that arrived, if one did."""
    try:
        _, ancillary, _, _ = opened.recvmsg(1, 512, socket.MSG_ERRQUEUE)
    except OSError:
        return None
    data = ancillary[0][2]
    _, origin, type_, code, _, _ = _EXTENDED_ERROR.unpack_from(data)
    by = _offender(data[_EXTENDED_ERROR.size :], opened.family)
    if (origin, type_, code) in _PORT_UNREACHABLE:
        return Outcome(Fate.UNREACHABLE, sent_from, by=by)
    return Outcome(Fate.FAILED, sent_from, by=by, detail=f"ICMP type {type_} code {code}")


def _offender(address: bytes, family: int) -> str:
    """The address in a sockaddr."""
    packed = address[4:8] if family == socket.AF_INET else address[8:24]
    return socket.inet_ntop(family, packed)
