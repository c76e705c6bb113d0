"""Connections whose SYN may have to be sent again: what became of them, and after how many SYNs.

How often a SYN was sent again is the client's own count. That the first one is sent again after
about a second is the kernel's doing: nothing here measures it.
"""

import errno
import select
import socket
import struct
import time
from collections.abc import Iterable
from contextlib import ExitStack

import msgspec

from kubeproxy.base.inet import Family
from lab.dialer import Dialer
from lab.documents import in_family
from lab.network import Network
from lab.outcome import Probe
from lab.plan import HOSTS, cluster_ip, external_ip, vip

SECONDS = 60.0
"""Until each attempt should have come to an end."""
NODE = "198.51.100.10"
_USER_TIMEOUT = 18  # TCP_USER_TIMEOUT
_INFO_SIZE = 104
_TOTAL_RETRANSMISSIONS = struct.Struct("=100xI")


class Attempt(msgspec.Struct, frozen=True):
    """Who answered, or the name of the error; and how often the SYN was sent again."""

    who: str
    retries: int = 0

    def __str__(self) -> str:
        return f"{self.who} after {self.retries} retries"


class Way(msgspec.Struct, frozen=True):
    """A source and the kind of address that it dials."""

    source: str
    kind: str

    def probe(self, number: int, family: Family, node_port: int) -> Probe:
        """The packet to the service with that number."""
        host = HOSTS[self.source].address(family)
        if self.kind == "node port":
            return Probe(self.source, host, in_family(NODE, family), node_port)
        addresses = {"cluster IP": cluster_ip, "balancer": vip, "external IP": external_ip}
        return Probe(self.source, host, addresses[self.kind](number, family), 80)


POD = Way("P", "cluster IP")
"""Forwarded."""
HOST = Way("H", "cluster IP")
"""Sent by the node itself, and masqueraded."""
OUTSIDE = Way("X", "balancer")
OUTSIDE_TO_NODE = Way("X", "node port")
WAYS = (POD, HOST, OUTSIDE, OUTSIDE_TO_NODE)
"""One for each path of packets; those from outside are masqueraded unless the policy is Local."""


def attempt(network: Network, probes: Iterable[Probe], *, patience: float = 20.0) -> list[Attempt]:
    """Dial all at once and wait for every outcome; a client gives up after so many seconds."""
    probes = tuple(probes)
    dialer = Dialer(network)
    with ExitStack() as stack, select.epoll() as poll:
        opened: dict[int, tuple[int, socket.socket]] = {}
        with network.on_one_cpu():
            for number, probe in enumerate(probes):
                made = stack.enter_context(dialer.open(probe))
                made.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(1000 * patience))
                opened[made.fileno()] = number, made
                poll.register(made, select.EPOLLIN)
        found: dict[int, Attempt] = {}
        deadline = time.monotonic() + SECONDS
        while opened:
            left = deadline - time.monotonic()
            assert left > 0, f"no outcome: {[probes[n] for n, _ in opened.values()]}"
            for fd, _ in poll.poll(left):
                number, made = opened.pop(fd)
                poll.unregister(fd)
                found[number] = _outcome(made)
    return [found[number] for number in range(len(probes))]


def _outcome(opened: socket.socket) -> Attempt:
    who = _error_of_icmp(opened)
    try:
        who = who or opened.recv(4096).decode().partition(" ")[0]
    except OSError as error:
        who = errno.errorcode[error.errno or 0]
    info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
    return Attempt(who, *_TOTAL_RETRANSMISSIONS.unpack(info))


def _error_of_icmp(opened: socket.socket) -> str:
    """What a message of ICMP said, if one came.

    One that comes while the socket is still in its call is only noted there.
    """
    try:
        _, ancillary, _, _ = opened.recvmsg(1, 512, socket.MSG_ERRQUEUE)
    except OSError:
        return ""
    (number,) = struct.unpack_from("=I", ancillary[0][2])  # sock_extended_err
    return errno.errorcode[number]


def retries(attempts: Iterable[Attempt]) -> int:
    """How many SYNs were sent again."""
    return sum(each.retries for each in attempts)
