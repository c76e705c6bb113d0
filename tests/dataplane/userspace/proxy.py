"""A worker on the loopback address, and those who dial it and answer it."""

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.userspace.listeners import Place
from kubeproxy.dataplane.userspace.orders import Open, Order, Settings, Targets
from kubeproxy.dataplane.userspace.sockets import keep_clients, open_sockets
from kubeproxy.dataplane.userspace.workers import Pool, Sockets, Worker

SECONDS = 30.0
LOOPBACK = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)
Address = tuple[str, int]


class Proxy:
    """Some workers, with one service port."""

    def __init__(
        self,
        *targets: Address,
        tcp: bool = True,
        count: int = 1,
        affinity: int = 0,
        idle: float = 0.25,
    ) -> None:
        self.pool = Pool(Settings(idle), count)
        self._affinity = affinity
        protocol = Protocol.TCP if tcp else Protocol.UDP
        opened = open_sockets(Family.IPV4, protocol, Place(LOOPBACK, 0), count)
        if affinity:
            keep_clients(opened[0], Family.IPV4, count)
        self.address: Address = opened[0].getsockname()
        self.pool.tell([self._targets(targets), Open(1, tcp, 1)], Sockets({1: opened}))

    @property
    def worker(self) -> Worker:
        return self.pool.workers[0]

    def _targets(self, targets: Sequence[Address]) -> Targets:
        return Targets(1, 1, "shop/cart:http", self._affinity, tuple(targets))

    def lead_to(self, *targets: Address) -> None:
        self.tell(self._targets(targets))

    def tell(self, *orders: Order) -> None:
        self.pool.tell(orders, Sockets())

    def dial(self, source: str = LOOPBACK) -> socket.socket:
        return socket.create_connection(self.address, SECONDS, (source, 0))

    def limit_descriptors(self, most: int) -> None:
        _, hard = resource.prlimit(self.worker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.worker.pid, resource.RLIMIT_NOFILE, (most, hard))


@contextlib.contextmanager
def proxy(
    *targets: Address, tcp: bool = True, count: int = 1, affinity: int = 0, idle: float = 0.25
) -> Iterator[Proxy]:
    opened = Proxy(*targets, tcp=tcp, count=count, affinity=affinity, idle=idle)
    try:
        yield opened
    finally:
        opened.pool.close()


class Endpoint:
    """A listening socket whose test accepts by itself."""

    def __init__(self, backlog: int = 100) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(SECONDS)
        self.socket.bind((LOOPBACK, 0))
        self.socket.listen(backlog)
        self.address: Address = self.socket.getsockname()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def accept(self) -> socket.socket:
        accepted = self.socket.accept()[0]
        accepted.settimeout(SECONDS)
        return accepted


class Pair(NamedTuple):
    """The two ends of what goes through the proxy."""

    client: socket.socket
    server: socket.socket


def read(opened: socket.socket, size: int) -> bytes:
    """So many bytes, or all before the end."""
    received = bytearray()
    while len(received) < size:
        data = opened.recv(min(1 << 20, size - len(received)))
        if not data:
            break
        received += data
    return bytes(received)


def reset(opened: socket.socket) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    opened.close()
