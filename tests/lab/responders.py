"""Who answers in the lab, and the process that does it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kubeproxy.base.inet import Family
from lab.network import Network
from lab.plan import (
    ENDPOINT_PORTS,
    HAS_SCTP,
    HOST_PORTS,
    HOSTS,
    KESTREL,
    NODE_NAME_OF,
    SENTINEL_PORT,
    WORLD_PORTS,
)
from world import NODE_ADDRESSES

TESTS = Path(__file__).parents[1]


class Post(msgspec.Struct, frozen=True):
    """Who answers, and on which ports of its namespace."""

    who: str
    namespace: str
    ports: tuple[int, ...]
    addresses: tuple[str, ...] = ()
    """Where SCTP is answered."""


def posts() -> list[Post]:
    """All that answer: endpoints, the host's own processes, and the world."""
    pods = [HOSTS[name] for name in NODE_NAME_OF if HOSTS[name].namespace != KESTREL]
    own = tuple(address for family in Family for address in NODE_ADDRESSES[family])
    return [
        *(Post(p.name, p.namespace, ENDPOINT_PORTS, (p.ipv4, p.ipv6)) for p in pods),
        Post("H", KESTREL, (*ENDPOINT_PORTS, *HOST_PORTS), own),
        Post("W", HOSTS["W"].namespace, WORLD_PORTS),
    ]


class Responders:
    """The process, from its start until `close`."""

    def __init__(self, network: Network) -> None:
        answering = [
            (
                post.who,
                str(network.namespaces[post.namespace].path),
                post.ports,
                post.addresses if HAS_SCTP else (),
            )
            for post in posts()
        ]
        paths = [str(namespace.path) for namespace in network.namespaces.values()]
        configuration = json.dumps([answering, paths, SENTINEL_PORT])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.responder", configuration],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        os.sched_setaffinity(self._process.pid, {network.cpu})
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the responders did not start"
        network.reset_connections = self.reset_connections

    def reset_connections(self) -> None:
        """Have it reset all connections that clients made to it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"reset\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"done\n", "the responders are gone"

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, the process does nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)
