"""New datagram flows by the thousand: each from an address and a port that were not used before.

One socket sends for all of the crowd, so that a flow costs no socket of its own.
"""

import itertools
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubeproxy.base.inet import Family, family_of, pack, unpack
from lab.network import Network
from lab.plan import CROWD_SIZE, crowd

Destination = tuple[str, int]

SECONDS = 60.0
"""Without an answer: all that is sent should be answered or refused."""
_PORTS = range(33000, 61000)
_IN_PKTINFO = struct.Struct("=I4s4s")  # interface, local address, destination
_IN6_PKTINFO = struct.Struct("=16sI")
_IP_PKTINFO = 8


class Hit(NamedTuple):
    """A datagram that was answered: who sent it, which service, and which endpoint did it."""

    client: str
    service: str
    endpoint: str


class Salvo:
    """The crowd of clients from outside."""

    def __init__(self, network: Network) -> None:
        self._outside = network.namespaces["X"]
        self._ports: Iterator[int] = itertools.cycle(_PORTS)

    def fire(self, destinations: Sequence[Destination], clients: int = CROWD_SIZE) -> list[Hit]:
        """Send a datagram to each destination, all of one family; the answers, in no order."""
        hits: list[Hit] = []
        waiting = iter(destinations)
        while volley := list(itertools.islice(waiting, clients)):
            hits += self._fire(volley)
        return hits

    def _fire(self, volley: Sequence[Destination]) -> Iterator[Hit]:
        family = family_of(volley[0][0])
        kind = socket.AF_INET if family is Family.IPV4 else socket.AF_INET6
        with self._outside.entered():
            opened = socket.socket(kind, socket.SOCK_DGRAM)
        with opened:
            opened.bind(("", next(self._ports)))
            opened.setblocking(False)
            opened.setsockopt(*_receive_option(family), 1)
            for number, destination in enumerate(volley):
                opened.sendmsg([b"who"], [_from(crowd(number, family))], 0, destination)
            yield from _answers(opened, len(volley))


def _receive_option(family: Family) -> tuple[int, int]:
    if family is Family.IPV4:
        return socket.IPPROTO_IP, _IP_PKTINFO
    return socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO


def _from(address: str) -> tuple[int, int, bytes]:
    """What makes a datagram leave from that address."""
    packed = pack(address)
    if family_of(address) is Family.IPV4:
        return socket.IPPROTO_IP, _IP_PKTINFO, _IN_PKTINFO.pack(0, packed, bytes(4))
    return socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, _IN6_PKTINFO.pack(packed, 0)


def _answers(opened: socket.socket, count: int) -> Iterator[Hit]:
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    while count and poll.poll(1000 * SECONDS):
        try:
            data, ancillary, _, peer = opened.recvmsg(4096, 128)
        except OSError:  # refused: it will not be answered
            count -= 1
            continue
        count -= 1
        _, at, port, *_ = data.decode().split()
        packed = ancillary[0][2]
        client = packed[8:12] if len(packed) == _IN_PKTINFO.size else packed[:16]
        yield Hit(unpack(client), peer[0], f"{at} {port}")
