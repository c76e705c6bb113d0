"""What a connection and a request cost on their whole way: a pod, the node, an endpoint, and back.

One process has both ends, each in the network namespace where it belongs. On one processor the
kernel has carried a packet all the way before the call that sent it returns, so nothing waits,
and nothing but the way itself is counted.
"""

import socket
import struct
from collections.abc import Sequence

from bench.clusters import ENDPOINT_PORT
from bench.instructions.clock import now
from bench.instructions.figures import CONNECTION, REQUEST
from bench.path import Row

_WARM = 20
_CONNECTIONS = 120
_TALKING = 4
_REQUESTS = 60
_MESSAGE = bytes(64)
_RESET = struct.pack("ii", 1, 0)
_SECONDS = struct.pack("ll", 10, 0)
"""How long a call may wait before it fails."""


def measure(row: Row, port: int, addresses: Sequence[str]) -> dict[str, list[int]]:
    """Connect to the addresses in turn; then talk with some of them."""
    with row.server.entered():
        server = socket.create_server(("0.0.0.0", ENDPOINT_PORT), backlog=64)
    with server:
        connected, talked = [], []
        for number in range(_WARM + _CONNECTIONS):
            address = addresses[number % len(addresses)]
            client, there, cost = _connected(row, server, (address, port))
            if number >= _WARM:
                connected.append(cost)
            if number % (_CONNECTIONS // _TALKING) == 0:
                talked += [_exchange(client, there) for _ in range(_REQUESTS)][_WARM:]
            for end in (client, there):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()
    return {CONNECTION: connected, REQUEST: talked}


def _connected(
    row: Row, server: socket.socket, address: tuple[str, int]
) -> tuple[socket.socket, socket.socket, int]:
    """Both ends of a new connection, and the instructions from its first packet to its last."""
    with row.client.entered():
        client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SECONDS)
    began = now()
    client.connect(address)
    cost = now() - began
    there = server.accept()[0]
    for end in (client, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SECONDS)
    return client, there, cost


def _exchange(client: socket.socket, there: socket.socket) -> int:
    began = now()
    client.send(_MESSAGE)
    there.recv(1 << 10)
    there.send(_MESSAGE)
    client.recv(1 << 10)
    return now() - began
