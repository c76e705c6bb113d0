"""What connections and data cost on their whole way: a pod, the node, an endpoint, and back.

One process has both ends, each in the network namespace where it belongs. On one processor the
kernel has carried a packet all the way before the call that sent it returns, so nothing waits,
and nothing but the way itself is counted.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import msgspec

from bench.clusters import ENDPOINT_PORT
from bench.instructions.clock import now
from bench.instructions.figures import CONNECTION, PACKETS, REQUEST, STREAM
from bench.path import Row

_WARM = 30
_CONNECTIONS = 120
_TALKING = 5
_REQUESTS = 40
_MEGABYTES = 5
_MESSAGE = bytes(64)
_PIECE = bytes(62_500)
_PIECES = 16
"""So many are a megabyte. One fits into the window of a connection, so that nobody waits."""
_RESET = struct.pack("ii", 1, 0)
_SECONDS = struct.pack("ll", 10, 0)
"""How long a call may wait before it fails."""


class Opened(msgspec.Struct, frozen=True):
    """Both ends of a new connection, and the instructions from its first packet to its last."""

    client: socket.socket
    there: socket.socket
    cost: int


def measure(row: Row, port: int, addresses: Sequence[str]) -> dict[str, list[int]]:
    """Connect to the addresses in turn; then talk with some of them."""
    turn = ((address, port) for address in cycle(addresses))
    found: dict[str, list[int]] = {CONNECTION: [], REQUEST: [], STREAM: [], PACKETS: []}
    with row.server.entered():
        server = socket.create_server(("0.0.0.0", ENDPOINT_PORT), backlog=64)
    with server:
        for number, address in enumerate(islice(turn, _WARM + _CONNECTIONS)):
            with _opened(row, server, address) as opened:
                if number >= _WARM:
                    found[CONNECTION].append(opened.cost)
        for address in islice(turn, _TALKING):
            with _opened(row, server, address) as opened:
                found[REQUEST] += _exchanges(opened)
                found[STREAM] += _streams(opened)
        # As large as a segment on the wire: by default one packet between local devices is 64 KB.
        row.server.run(["ip", "link", "set", "dev", "eth0", "gso_max_segs", "1"])
        for address in islice(turn, _TALKING):
            with _opened(row, server, address) as opened:
                _exchanges(opened)
                found[PACKETS] += _streams(opened)
    return found


@contextlib.contextmanager
def _opened(row: Row, server: socket.socket, address: tuple[str, int]) -> Iterator[Opened]:
    """A connection; it ends with a reset."""
    with row.client.entered():
        client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SECONDS)
    began = now()
    client.connect(address)
    cost = now() - began
    there = server.accept()[0]
    for end in (client, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SECONDS)
    yield Opened(client, there, cost)
    for end in (client, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.close()


def _exchanges(opened: Opened) -> list[int]:
    """What requests cost on a connection that has had some."""
    return [_exchange(opened.client, opened.there) for _ in range(_WARM + _REQUESTS)][_WARM:]


def _exchange(client: socket.socket, there: socket.socket) -> int:
    began = now()
    client.send(_MESSAGE)
    there.recv(1 << 10)
    there.send(_MESSAGE)
    client.recv(1 << 10)
    return now() - began


def _streams(opened: Opened) -> list[int]:
    """What a megabyte costs on a connection that has carried one."""
    return [_stream(opened.client, opened.there) for _ in range(1 + _MEGABYTES)][1:]


def _stream(client: socket.socket, there: socket.socket) -> int:
    """The endpoint sends a megabyte, and the pod reads it."""
    began = now()
    for _ in range(_PIECES):
        there.sendall(_PIECE)
        left = len(_PIECE)
        while left:
            left -= len(client.recv(left))
    return now() - began
