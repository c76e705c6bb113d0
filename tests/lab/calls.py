"""A client that calls in a closed loop beside the test, and what it has seen."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from kubeproxy.base.inet import Protocol
from lab.network import Network
from lab.plan import HOSTS

TESTS = Path(__file__).parents[1]


class Answers(msgspec.Struct, frozen=True):
    """How many calls each `address port` answered; how many failed, and examples of those."""

    by: Mapping[str, int]
    failed: int
    failures: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(self.by.values()) + self.failed


class Calls:
    """Calls from a host of the plan to destinations in turn, for as long as the context lasts.

    A pause between the calls leaves some of the machine to the daemon under test.
    """

    def __init__(
        self,
        network: Network,
        source: str,
        destinations: Sequence[tuple[str, int]],
        protocol: Protocol = Protocol.TCP,
        pause: float = 0.0,
    ) -> None:
        path = network.of(HOSTS[source]).path
        self._command = [
            *(sys.executable, "-m", "lab.caller"),
            *(str(path), protocol.name, str(pause), json.dumps(destinations)),
        ]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert self.so_far().total
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def so_far(self) -> Answers:
        """What came of the calls since the last time that this was asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        by, failed, failures = json.loads(self._process.stdout.readline())
        return Answers(by, failed, tuple(failures))
