"""What relaying costs: userspace mode beside haproxy in TCP mode, each with one process.

    PYTHONPATH=tests python -m bench.relays [--rounds 5]

On the loopback address a client opens connections one after the other, with a byte each way, and
then takes a stream. What counts is the processor time of the relaying process, with that of the
kernel on its behalf: so much work in a second of one core. The two take turns, so that a noisy
machine is noisy for both; the median of the rounds is printed.
"""

import argparse
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.processes import cpu_seconds
from dataplane.userspace.proxy import LOOPBACK, Address, Proxy, proxy

CONNECTIONS = 3000
STREAM_BYTES = 4 << 30
_CHUNK = 1 << 20
_SECONDS = 60.0
_HAPROXY = """
global
    nbthread 1
defaults
    mode tcp
    option splice-auto
    timeout connect 2s
    timeout client 1m
    timeout server 1m
listen relay
    bind {host}:{port}
    server endpoint {to[0]}:{to[1]}
"""


class Relay:
    """A relaying process, and where clients dial it."""

    def __init__(self, name: str, pid: int, address: Address) -> None:
        self.name = name
        self.pid = pid
        self.address = address

    def dial(self) -> socket.socket:
        """A connection through it."""
        return socket.create_connection(self.address, _SECONDS)


@contextmanager
def endpoint() -> Iterator[Address]:
    """Answers a byte with a byte; an `s` with a stream."""
    with socket.create_server((LOOPBACK, 0), backlog=1000) as listener:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                with accepted:
                    asked = accepted.recv(1)
                    if asked == b"s":
                        _send_stream(accepted)
                    elif asked:
                        accepted.sendall(asked)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


def _send_stream(accepted: socket.socket) -> None:
    data = bytes(_CHUNK)
    for _ in range(STREAM_BYTES // _CHUNK):
        accepted.sendall(data)


@contextmanager
def haproxy(to: Address) -> Iterator[Relay]:
    """A haproxy of one thread."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port: int = free.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
        config.write(_HAPROXY.format(host=LOOPBACK, port=port, to=to))
        config.flush()
        process = subprocess.Popen(["haproxy", "-db", "-q", "-f", config.name])
        try:
            relay = Relay("haproxy", process.pid, (LOOPBACK, port))
            _wait_listening(relay)
            yield relay
        finally:
            process.terminate()
            process.wait()


def _wait_listening(relay: Relay) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            relay.dial().close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def connections(relay: Relay) -> float:
    """How many connections a second of one core relays."""
    return CONNECTIONS / _cpu(relay, lambda: _ask_often(relay))


def gigabytes(relay: Relay) -> float:
    """How many gigabytes of one stream a second of one core relays."""
    return STREAM_BYTES / 1e9 / _cpu(relay, lambda: _take_stream(relay))


def _cpu(relay: Relay, work: Callable[[], object]) -> float:
    before = cpu_seconds(relay.pid)
    work()
    return cpu_seconds(relay.pid) - before


def _ask_often(relay: Relay) -> None:
    for _ in range(CONNECTIONS):
        with relay.dial() as client:
            client.sendall(b"x")
            if client.recv(1) != b"x":
                raise RuntimeError(f"{relay.name} does not relay")


def _take_stream(relay: Relay) -> None:
    buffer = bytearray(_CHUNK)
    left = STREAM_BYTES
    with relay.dial() as client:
        client.sendall(b"s")
        while left:
            got = client.recv_into(buffer)
            if not got:
                raise RuntimeError(f"{relay.name} ended early")
            left -= got


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    with endpoint() as to, proxy(to) as ours, haproxy(to) as peer:
        relays = (_own(ours), peer)
        for name, measure in (("connections", connections), ("gigabytes", gigabytes)):
            found = [[measure(relay) for relay in relays] for _ in range(rounds)]
            own, other = (statistics.median(column) for column in zip(*found, strict=True))
            print(  # the answer
                f"{name} in a second of one core: userspace {own:.2f}, haproxy {other:.2f},"
                f" ratio {own / other:.2f}"
            )


def _own(opened: Proxy) -> Relay:
    return Relay("userspace", opened.worker.pid, opened.address)


if __name__ == "__main__":
    main()
