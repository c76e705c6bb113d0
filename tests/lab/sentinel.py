"""Sentinels: datagrams that prove that a packet sent before them was dropped.

Silence proves nothing: on a busy machine an answer may take any time. Order does. After the
probes, their namespace sends a sentinel to every namespace of the lab, over the same wires and
through the same hooks of kestrel. When all sentinels are back, so are all answers to the probes:

- All packets of the lab are handled by one processor. Whoever dials is bound to it meanwhile, and
  the responders always are. A veth or loopback device puts a packet at the end of that processor's
  one queue, so packets that make equally many hops stay in order, whatever is slow. A delay on a
  wire is the sentinel's too.
- A sentinel makes as many hops as any probe: to kestrel and on, and back. Resets, ICMP errors and
  handshakes are sent by the kernel when the probe arrives, so before the sentinel arrives.
- Datagrams and accepted connections are answered by one process, which answers sentinels only when
  nothing else is left to read (`lab.responder`).

A sentinel that does not come back is an error of the lab, never an outcome.
"""

import itertools
import select
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack

from kubeproxy.base.inet import Family
from lab.network import Network
from lab.plan import HOSTS, SENTINEL_PORT, WIRED

SECONDS = 60.0
_SOURCE_PORT = SENTINEL_PORT + 1
_TARGETS = (*(hosts[0] for hosts in WIRED.values()), HOSTS["H"])
"""One host of each namespace."""
_numbers = itertools.count()

Origin = tuple[str, Family]
"""The name of a host that sent probes, and their family."""


def send_sentinels(network: Network, origins: Iterable[Origin]) -> None:
    """Send sentinels from the namespaces of these hosts; returns when all have come back."""
    number = str(next(_numbers)).encode()
    missing: set[tuple[int, str]] = set()
    poll = select.poll()
    opened: dict[int, socket.socket] = {}
    with ExitStack() as stack:
        for name, family in {(HOSTS[name].namespace, family) for name, family in origins}:
            sender = stack.enter_context(_sender(network, name, family))
            opened[sender.fileno()] = sender
            poll.register(sender, select.POLLIN)
            for target in _TARGETS:
                address = target.address(family)
                sender.sendto(number, (address, SENTINEL_PORT))
                missing.add((sender.fileno(), address))
        deadline = time.monotonic() + SECONDS
        while missing:
            left = deadline - time.monotonic()
            assert left > 0, f"sentinels were lost: {sorted(address for _, address in missing)}"
            for fd, _ in poll.poll(1000 * left):
                data, peer = opened[fd].recvfrom(64)
                if data == number:
                    missing.discard((fd, peer[0]))


def _sender(network: Network, namespace: str, family: Family) -> socket.socket:
    """A socket in the namespace; always the same port, so that few flows are tracked."""
    host = next(target for target in _TARGETS if target.namespace == namespace)
    kind = socket.AF_INET if family is Family.IPV4 else socket.AF_INET6
    with network.namespaces[namespace].entered():
        opened = socket.socket(kind, socket.SOCK_DGRAM)
    opened.bind((host.address(family), _SOURCE_PORT))
    return opened
