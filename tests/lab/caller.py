"""One client that calls services in a closed loop, each call when the last one was answered.

A program, started by `Calls`. For every line on its standard input it prints what came of the
calls since the line before, and it ends when there are no more lines.
"""

import json
import select
import socket
import struct
import sys
import time
from collections import Counter
from pathlib import Path

from lab.namespaces import entered

SECONDS = 30.0
"""Longer than any packet takes that is sent again."""
MOST_FAILURES = 20
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # leaves no TIME_WAIT behind


def call(kind: socket.SocketKind, destination: tuple[str, int]) -> str:
    """Who answers one call, as `address port`; an OSError when none does."""
    family = socket.AF_INET6 if ":" in destination[0] else socket.AF_INET
    with socket.socket(family, kind) as opened:
        opened.settimeout(SECONDS)
        if kind is socket.SOCK_STREAM:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        opened.connect(destination)
        if kind is socket.SOCK_DGRAM:
            opened.send(b"who")
        _, at, port, *_ = opened.recv(4096).decode().split()
        return f"{at} {port}"


class Tally:
    """What came of the calls: how many each one answered, and how many failed, with examples."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.failed = 0
        self.failures: list[str] = []

    def take(self, kind: socket.SocketKind, destination: tuple[str, int]) -> None:
        """Call once."""
        try:
            self.answers[call(kind, destination)] += 1
        except (OSError, ValueError) as error:
            self.failed += 1
            if len(self.failures) < MOST_FAILURES:
                self.failures.append(f"{destination}: {error}")

    def line(self) -> str:
        """As a line of JSON."""
        return json.dumps([self.answers, self.failed, self.failures])


def main(path: str, kind: str, pause: str, destinations: str) -> None:
    """Call the destinations in turn, from that namespace, until the input ends."""
    targets = [(address, port) for address, port in json.loads(destinations)]
    how = socket.SOCK_STREAM if kind == "TCP" else socket.SOCK_DGRAM
    asked = select.poll()
    asked.register(sys.stdin, select.POLLIN | select.POLLHUP)
    with entered(Path(path)):
        tally = Tally()
        while True:
            for target in targets:
                tally.take(how, target)
                time.sleep(float(pause))
                if not asked.poll(0):
                    continue
                if not sys.stdin.readline():
                    return
                print(tally.line(), flush=True)  # noqa: T201  # the answer to the line
                tally = Tally()


if __name__ == "__main__":
    main(*sys.argv[1:])
