"""The cost for packets: new connections and a stream through a service, and without a proxy.

There are three namespaces in a row: a pod that connects, the node with the proxy, and the machine
with all endpoints. Many services are used in turn, because their position can matter in a mode.
"""

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from bench.cluster_server import ClusterServer
from bench.clusters import (
    ENDPOINT_PORT,
    NODE_ADDRESS,
    SERVICE_PORT,
    Size,
    cluster_ip,
    endpoint_address,
)
from bench.figures import quantile
from bench.load import Connections
from bench.losses import losses
from bench.proxies import Proxy, Running
from lab.namespaces import Namespace

DIALLED = 100
CLIENTS = 2
ENDPOINTS = 2
TIMEOUT = 600.0
_CLIENT = "10.255.255.2"
_ENDPOINT_RANGE = "10.128.0.0/10"
_WORKERS = 2


class Limit(msgspec.Struct, frozen=True):
    """No proxy at all: endpoints are dialled directly."""

    title: str = "no proxy"


class Row:
    """The three namespaces; a number tells those of several rows apart."""

    def __init__(self, number: str = "") -> None:
        self.client, self.node, self.server = (
            Namespace(f"{name}{number}") for name in ("client", "node", "server")
        )
        for namespace, lines in (
            (self.node, _node(number)),
            (self.client, _CLIENT_END),
            (self.server, _SERVER_END),
        ):
            namespace.run(["ip", "-batch", "-"], stdin="\n".join(lines))
        self.node.sysctl((("ipv4/ip_forward", "1"),))

    def close(self) -> None:
        for namespace in (self.client, self.node, self.server):
            namespace.close()


def _node(number: str) -> tuple[str, ...]:
    return (
        "link set lo up",
        f"link add name pod type veth peer name eth0 netns client{number}",
        f"link add name eth0 type veth peer name eth0 netns server{number}",
        f"address add {NODE_ADDRESS}/32 dev eth0",
        "link set pod up",
        "link set eth0 up",
        f"route add {_CLIENT} dev pod",
        "route add 192.0.2.2 dev eth0",
        f"route add {_ENDPOINT_RANGE} via 192.0.2.2 dev eth0",
        "route add default via 192.0.2.2 dev eth0",
    )


_CLIENT_END = (
    "link set lo up",
    "link set eth0 up",
    f"address add {_CLIENT}/32 dev eth0",
    f"route add {NODE_ADDRESS} dev eth0",
    f"route add default via {NODE_ADDRESS} dev eth0",
)
_SERVER_END = (
    "link set lo up",
    "link set eth0 up",
    "address add 192.0.2.2/32 dev eth0",
    f"route add local {_ENDPOINT_RANGE} dev lo",
    f"route add {NODE_ADDRESS} dev eth0",
    f"route add default via {NODE_ADDRESS} dev eth0",
)


def measure(way: Proxy | Limit, services: int, seconds: float, seed: int) -> dict[str, float]:
    """The figures of one way at one size."""
    size = Size(services, ENDPOINTS)
    rng = random.Random(seed)
    chosen = [rng.randrange(services) for _ in range(DIALLED)]
    row = Row()
    try:
        if isinstance(way, Limit):
            addresses = [endpoint_address(size.serials(index)[0]) for index in chosen]
            _wait_served(row, ENDPOINT_PORT, addresses)
            return _figures(row, ENDPOINT_PORT, addresses, seconds)
        addresses = [cluster_ip(index) for index in chosen]
        with proxying(way, row, size, addresses):
            return _figures(row, SERVICE_PORT, addresses, seconds)
    finally:
        row.close()


@contextlib.contextmanager
def proxying(proxy: Proxy, row: Row, size: Size, addresses: Sequence[str]) -> Iterator[Running]:
    """The proxy at work, all that will be dialled being served."""
    with ClusterServer(row.node, size) as server:
        running = Running(proxy, row.node, server)
        try:
            _wait_served(row, SERVICE_PORT, addresses, running.check)
            running.wait_settled(2.0)
            _forget_attempts(row.node)
            # Connections that ended take no room for long.
            row.node.sysctl((("netfilter/nf_conntrack_tcp_timeout_close", "1"),))
            yield running
        finally:
            running.stop()


def _forget_attempts(node: Namespace) -> None:
    """Forget what was dialled before its service was there.

    The kernel tracks such a connection, untranslated, for two minutes after its last packet. A new
    one from the same port to the same address counts as a part of it and fails: no rule for new
    connections sees it.
    """
    node.run(["conntrack", "--flush"])


def _wait_served(
    row: Row, port: int, addresses: Sequence[str], go_on: Callable[[], None] = lambda: None
) -> None:
    """Wait until a connection to each address has been answered; the way is known then."""
    wanted = list(dict.fromkeys(addresses))
    deadline = time.monotonic() + TIMEOUT
    with serving(row.server, "accept"):
        while True:
            go_on()
            (found,) = _dial(row, "connect", ("1", str(port), *wanted), 1)
            if found.count >= len(wanted) and not found.failed:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"services are not served within {TIMEOUT:.0f} s")


def _figures(row: Row, port: int, addresses: Sequence[str], seconds: float) -> dict[str, float]:
    asked = (str(seconds), str(port), *addresses)
    before = losses(row.node, row.server)
    with serving(row.server, "accept"):
        (alone,) = _dial(row, "connect", asked, 1)
        together = _dial(row, "connect", asked, CLIENTS)
    if failed := failures([alone, *together]):
        raise RuntimeError(f"{failed}; {losses(row.node, row.server).since(before)}")
    with serving(row.server, "stream"):
        (streamed,) = _dial(row, "receive", asked, 1)
    return {
        "rate": sum(each.count / each.seconds for each in together),
        "first_p50": quantile(alone.times, 50),
        "first_p99": quantile(alone.times, 99),
        "stream": streamed.count / streamed.seconds / 1e6,
    }


def failures(found: Sequence[Connections]) -> str:
    """How many connections failed, and why; empty when none did."""
    reasons = sum((Counter(each.failed) for each in found), Counter[str]())
    if not reasons:
        return ""
    tried = reasons.total() + sum(each.count for each in found)
    words = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    return f"{reasons.total():,} of {tried:,} connections failed: {words}"


def _dial(row: Row, role: str, arguments: Sequence[str], clients: int) -> list[Connections]:
    command = [sys.executable, "-m", "bench.load", role, *arguments]
    with row.client.entered():
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(clients)]
    said = [process.communicate()[0] for process in processes]
    return [msgspec.json.decode(each, type=Connections) for each in said]


@contextlib.contextmanager
def serving(namespace: Namespace, role: str) -> Iterator[list[int]]:
    """Processes that have a role of `bench.load`, as they listen; their numbers."""
    command = [sys.executable, "-m", "bench.load", role]
    with namespace.entered():
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(_WORKERS)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it listens
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
