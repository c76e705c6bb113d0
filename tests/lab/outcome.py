"""What can become of a first packet, as its sender sees it."""

from enum import Enum

import msgspec

from kubeproxy.base.inet import Protocol, join


class Fate(Enum):
    """The kinds of outcomes."""

    ANSWERED = "answered"
    UNREACHABLE = "port unreachable"  # an ICMP message said so
    REFUSED = "reset"  # a TCP reset
    SILENT = "silence"  # proven: `lab.sentinel`
    FAILED = "failed"  # anything else, such as no route


class Peer(msgspec.Struct, frozen=True):
    """An address and a port."""

    address: str
    port: int

    def __str__(self) -> str:
        return join(self.address, self.port)


class Outcome(msgspec.Struct, frozen=True):
    """What came back.

    `sent_from` is where the packet left. If it was answered: `who` answered, `at` which address,
    and which client it `saw`. `by` sent the ICMP error; `detail` says what failed.
    """

    fate: Fate
    sent_from: Peer
    who: str = ""
    at: Peer | None = None
    saw: Peer | None = None
    by: str = ""
    detail: str = ""

    def __str__(self) -> str:
        if self.fate is Fate.ANSWERED:
            return f"{self.who} at {self.at} saw {self.saw}"
        if self.by:
            return f"{self.fate.value} {self.detail} by {self.by}".replace("  ", " ")
        return f"{self.fate.value} {self.detail}".rstrip()


class Probe(msgspec.Struct, frozen=True):
    """A packet to send.

    `source` is a name of the plan, `address` the address of it that is used. The protocol None
    stands for an ICMP echo.
    """

    source: str
    address: str
    destination: str
    port: int
    protocol: Protocol | None = Protocol.TCP


def read_answer(line: bytes, sent_from: Peer) -> Outcome:
    """The outcome in a responder's line."""
    who, at, at_port, saw, saw_port = line.decode().split()
    return Outcome(Fate.ANSWERED, sent_from, who, Peer(at, int(at_port)), Peer(saw, int(saw_port)))
