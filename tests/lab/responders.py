"""Who answers in the lab, and the life of the process that does it."""

import json
import os
import subprocess
import sys
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
    WORLD_PORTS,
)
from world import NODE_ADDRESSES

TESTS = Path(__file__).parents[1]


class Post(msgspec.Struct, frozen=True):
    """Somebody to be, and the ports of its namespace to answer on."""

    who: str
    namespace: str
    ports: tuple[int, ...]
    addresses: tuple[str, ...] = ()
    """Where SCTP is answered."""


def posts() -> list[Post]:
    """Everybody who answers: endpoints, the host's own processes, and the world."""
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
        configuration = [
            (
                post.who,
                str(network.namespaces[post.namespace].path),
                post.ports,
                post.addresses if HAS_SCTP else (),
            )
            for post in posts()
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.responder", json.dumps(configuration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the responders did not start"

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=10)
