"""Sends first packets, many at once, from any host of the lab, and says what became of each.

An outcome never depends on how long something took: a packet was dropped when sentinels that were
sent after it are back and it was not answered (`lab.sentinel`).
"""

import contextlib
import errno
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Self

from kubeproxy.base.inet import Protocol, family_of
from lab.icmp import RECVERR, queued_error, raw_error, raw_socket
from lab.network import Network
from lab.outcome import Fate, Outcome, Peer, Probe, read_answer
from lab.plan import HOSTS
from lab.relayed import Settle
from lab.sentinel import Origin, send_sentinels

IN_FLIGHT = 100  # datagrams that fit into the buffer of one socket
GRACE = 0.01
"""Seconds in which most answers come. Sentinels are sent only if some do not: it saves time, and
decides nothing."""
SECONDS = 60.0
"""For the first line of a connection that is established."""
_SYN_SENT = 2  # the state at the beginning of struct tcp_info
_SCTP_STATUS = 14
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

    def __init__(self, network: Network, settle: Settle = send_sentinels) -> None:
        self._network = network
        self._settle = settle

    def dial(self, probes: Sequence[Probe], seconds: float = SECONDS) -> list[Outcome]:
        """The outcome of each probe, in order.

        A connection that is established and gets no line in so many seconds has failed. That is
        an error, unless rules are deleted meanwhile: then the connection loses its translation,
        the endpoint is reset, and the client waits for ever.
        """
        outcomes: list[Outcome] = []
        for start in range(0, len(probes), IN_FLIGHT):
            with self._network.on_one_cpu():
                outcomes += self._dial(probes[start : start + IN_FLIGHT], seconds)
        return outcomes

    def _dial(self, probes: Sequence[Probe], seconds: float) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        with _Flights() as flights:
            for number, probe in enumerate(probes):
                outcome = self._launch(number, probe, flights)
                if outcome is not None:
                    outcomes[number] = outcome
            outcomes.update(flights.land(GRACE))
            # A connection of SCTP takes two round trips.
            for _ in range(2 if flights.have_sctp else 1):
                self._settle(self._network, flights.origins())
            outcomes.update(flights.land(0.0))
            outcomes.update(flights.silent())
            outcomes.update(flights.land(seconds))
            outcomes.update(flights.mute())
        return [outcomes[number] for number in range(len(probes))]

    def open(self, probe: Probe, port: int = 0) -> socket.socket:
        """A socket of the probe's source, bound (0: to a fresh port), connected or about to be."""
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
        opened.setsockopt(*RECVERR[opened.family], 1)
        if opened.type is socket.SOCK_STREAM:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        if port or probe.protocol is None:
            opened.bind((probe.address, port))
        else:
            self._bind(opened, probe)
        error = opened.connect_ex((probe.destination, probe.port))
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, os.strerror(error))

    def _bind(self, opened: socket.socket, probe: Probe) -> None:
        for port in self._network.fresh_ports(probe.address):
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
        with contextlib.ExitStack() as stack:
            raw = None
            if probe.protocol is Protocol.SCTP:
                raw = stack.enter_context(self._raw_socket(probe))
            try:
                opened = stack.enter_context(self.open(probe))
            except OSError as error:
                return Outcome(Fate.FAILED, nowhere, detail=str(error))
            flight = _Flight(number, probe, opened, raw)
            try:
                if probe.protocol is None:
                    opened.send(_ECHO[opened.family][1])
                elif probe.protocol is Protocol.UDP:
                    opened.send(b"who")
            except PermissionError:  # a drop on the way out; also a reject, which ICMP reports
                pass
            except OSError as error:
                return Outcome(Fate.FAILED, flight.sent_from, detail=str(error))
            stack.pop_all()
            flights.add(flight)
        return None

    def _raw_socket(self, probe: Probe) -> socket.socket:
        with self._network.of(HOSTS[probe.source]).entered():
            return raw_socket(socket.AF_INET6 if ":" in probe.destination else socket.AF_INET)


class _Flight:
    """A probe that is under way; `raw` gets ICMP errors where the socket itself does not."""

    def __init__(
        self, number: int, probe: Probe, opened: socket.socket, raw: socket.socket | None
    ) -> None:
        self.number = number
        self.probe = probe
        self.socket = opened
        self.sent_from = Peer(*opened.getsockname()[:2])
        self._raw = raw

    def land(self) -> Outcome:
        """What a socket that can be read says."""
        if self.probe.protocol is None:
            at = Peer(self.probe.destination, 0)
            echoed = Outcome(Fate.ANSWERED, self.sent_from, "echo", at, self.sent_from)
            return queued_error(self.socket, self.sent_from) or echoed
        outcome = outcome_of(self.socket, self.sent_from)
        if self._raw is not None and outcome.fate is Fate.REFUSED:
            # SCTP takes an ICMP error for a refusal, unless the socket is in a call just then.
            return raw_error(self._raw, Protocol.SCTP, self.sent_from) or outcome
        return outcome

    def silent(self) -> Outcome | None:
        """The outcome if no answer came; None if a connection is established."""
        if self._raw is not None:
            refused = raw_error(self._raw, Protocol.SCTP, self.sent_from)
            if refused is not None:
                return refused
        return None if self._is_connected() else Outcome(Fate.SILENT, self.sent_from)

    def _is_connected(self) -> bool:
        if self.probe.protocol is Protocol.TCP:
            state = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
            return state != _SYN_SENT
        if self.probe.protocol is Protocol.SCTP:
            try:  # fails unless there is an association
                self.socket.getsockopt(Protocol.SCTP, _SCTP_STATUS, 256)
            except OSError:
                return False
            return True
        return False

    def close(self) -> None:
        self.socket.close()
        if self._raw is not None:
            self._raw.close()


Landed = Iterator[tuple[int, Outcome]]


class _Flights:
    """All probes that are under way."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._flights: dict[int, _Flight] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for flight in self._flights.values():
            flight.close()
        self._poll.close()

    def add(self, flight: _Flight) -> None:
        fd = flight.socket.fileno()
        self._flights[fd] = flight
        self._poll.register(fd, select.EPOLLIN)

    def origins(self) -> set[Origin]:
        """Where those that are still under way come from."""
        probes = [flight.probe for flight in self._flights.values()]
        return {(probe.source, family_of(probe.destination)) for probe in probes}

    @property
    def have_sctp(self) -> bool:
        return any(each.probe.protocol is Protocol.SCTP for each in self._flights.values())

    def land(self, seconds: float) -> Landed:
        """Outcomes as they come, until there was none for so long."""
        while self._flights and (ready := self._poll.poll(seconds)):
            for fd, _ in ready:
                yield self._landed(fd, self._flights[fd].land())

    def silent(self) -> Landed:
        """Those that were not answered, when all answers are here."""
        for fd, flight in list(self._flights.items()):
            outcome = flight.silent()
            if outcome is not None:
                yield self._landed(fd, outcome)

    def mute(self) -> Landed:
        """Those that were connected, and got no line."""
        for fd, flight in list(self._flights.items()):
            detail = "connected, and got no line"
            yield self._landed(fd, Outcome(Fate.FAILED, flight.sent_from, detail=detail))

    def _landed(self, fd: int, outcome: Outcome) -> tuple[int, Outcome]:
        flight = self._flights.pop(fd)
        flight.close()
        return flight.number, outcome


def outcome_of(opened: socket.socket, sent_from: Peer) -> Outcome:
    """What a socket that can be read says."""
    unreachable = queued_error(opened, sent_from)
    if unreachable is not None:
        return unreachable
    try:
        data = opened.recv(4096)
    except ConnectionRefusedError:
        return Outcome(Fate.REFUSED, sent_from)
    except OSError as error:
        return Outcome(Fate.FAILED, sent_from, detail=str(error))
    if not data:
        return Outcome(Fate.FAILED, sent_from, detail="closed without a line")
    return read_answer(data, sent_from)
