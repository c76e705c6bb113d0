"""Both ends of the connections whose cost is measured, as processes: `python -m bench.load ROLE`.

The same plain blocking loops for all: two runs differ in the path between them only.
The client prints one JSON object.
"""

import contextlib
import socket
import struct
import sys
import time
from collections import Counter

import msgspec

from bench.clusters import ENDPOINT_PORT

BACKLOG = 4096
BUFFER = 1 << 18
_RESET = struct.pack("ii", 1, 0)


class Connections(msgspec.Struct, frozen=True):
    """How many connections were made in how many seconds; connect times in microseconds.

    `failed` are those that were not made, by reason; `processor` is the processor time that the
    client has used, in seconds.
    """

    count: int
    seconds: float
    times: list[float]
    failed: dict[str, int] = {}
    processor: float = 0.0


def accept() -> None:
    """Take connections and let go of them."""
    with _listening() as server:
        while True:
            server.accept()[0].close()


def stream() -> None:
    """Send to one client after the other, as fast as it goes."""
    data = bytes(BUFFER)
    with _listening() as server:
        while True:
            connection = server.accept()[0]
            with connection, contextlib.suppress(ConnectionError):
                while True:
                    connection.sendall(data)


def _listening() -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", ENDPOINT_PORT))
    server.listen(BACKLOG)
    print("listening", flush=True)
    return server


def connect(seconds: float, port: int, addresses: list[str]) -> Connections:
    """Make connections, one after the other, to the addresses in turn."""
    times, number = [], 0
    failed: Counter[str] = Counter()
    began, used = time.perf_counter(), time.process_time()
    end = began + seconds
    while (now := time.perf_counter()) < end:
        client = socket.socket()
        client.settimeout(2)
        # A reset leaves no connection that waits: ports and memory last.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        try:
            client.connect((addresses[number % len(addresses)], port))
            times.append((time.perf_counter() - now) * 1e6)
        except OSError as error:
            failed[(error.strerror or str(error)).lower()] += 1
        client.close()
        number += 1
    took = time.perf_counter() - began
    return Connections(len(times), took, times, dict(failed), time.process_time() - used)


def receive(seconds: float, port: int, address: str) -> Connections:
    """Read one established connection; the count is that of bytes."""
    buffer, total = memoryview(bytearray(BUFFER)), 0
    with socket.create_connection((address, port)) as client:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            total += client.recv_into(buffer)
        return Connections(total, time.perf_counter() - began, [])


def main(role: str, arguments: list[str]) -> None:
    if role == "accept":
        accept()
    elif role == "stream":
        stream()
    else:
        seconds, port = float(arguments[0]), int(arguments[1])
        if role == "connect":
            found = connect(seconds, port, arguments[2:])
        else:
            found = receive(seconds, port, arguments[2])
        sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
