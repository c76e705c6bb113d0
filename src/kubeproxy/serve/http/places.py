"""Places for connections: which clients have one, and which gives one up when all are taken.

A client may take what others leave. When all places are taken, a newcomer gets the place of a
client that has more: first the port with most connections gives, and on that port the client with
most. So one client costs the others on its port one place at a time, which they get back when they
ask, and clients of one port cost those of another nothing.
"""

from collections.abc import Hashable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from kubeproxy.base.inet import Family, family_of, network, parse_address
from kubeproxy.serve.http.access import is_loopback
from kubeproxy.serve.http.request import Ends

_LOOPBACK = "loopback"
_SITE = 64
"""An IPv6 host has as many addresses as it likes in its /64, so all of those are one client."""


class Caller(NamedTuple):
    """A client of a port: `client` stands for all addresses that one host can have at will.

    `own` is one on this node, such as the kubelet.
    """

    port: int
    client: str
    own: bool = False


def caller_of(ends: Ends) -> Caller:
    """The client of a connection.

    A client whose address is the one that it connected to is on this node: no answer to such a
    packet from elsewhere would leave the node, so there would be no connection.
    """
    peer, local = (address.partition("%")[0] for address, _ in ends)
    port = ends.server[1]
    address = parse_address(peer)
    if address is None:  # the Unix socket
        return Caller(port, peer)
    if is_loopback(address):
        return Caller(port, _LOOPBACK, own=True)
    own = peer == local
    if family_of(address) is Family.IPV6:
        address = network(address, _SITE).address
    return Caller(port, address, own)


M = TypeVar("M", bound=Hashable)


class ConnectionStage(Enum):
    """What a connection is doing."""

    WAITING = "waits for its client: for a request, or until an answer is read"
    AGAIN = "waits for an answer or gets one, and has had one before"
    FIRST = "waits for its first answer, or gets it"


class _PortPlaces(Generic[M]):
    """The connections of one port, by client; the latest to make progress is last in each."""

    def __init__(self) -> None:
        self.size = 0
        self.sizes: dict[str, int] = {}
        self._members: dict[str, dict[ConnectionStage, dict[M, None]]] = {}

    def add(self, member: M, client: str) -> None:
        self.size += 1
        self.sizes[client] = self.sizes.get(client, 0) + 1
        stages = self._members.setdefault(client, {stage: {} for stage in ConnectionStage})
        stages[ConnectionStage.WAITING][member] = None

    def remove(self, member: M, client: str) -> None:
        self.size -= 1
        self.sizes[client] -= 1
        for members in self._members[client].values():
            members.pop(member, None)
        if not self.sizes[client]:
            del self.sizes[client], self._members[client]

    def note(self, member: M, client: str, stage: ConnectionStage) -> None:
        stages = self._members[client]
        for members in stages.values():
            members.pop(member, None)
        stages[stage][member] = None
        self.sizes[client] = self.sizes.pop(client)

    def giver(self, held: int) -> M | None:
        """The connection whose place goes to a client that has `held` of them.

        A first answer is cut off only for a client that still has fewer afterwards.
        """
        largest = max(self.sizes, key=self.sizes.__getitem__)
        for stage, members in self._members[largest].items():
            if members and (stage is not ConnectionStage.FIRST or self.sizes[largest] > held + 1):
                return next(iter(members))
        return None


class Places(Generic[M]):
    """So many places; `M` stands for a connection.

    Of a client's connections the one goes that comes first in the order of `ConnectionStage`, and
    has been without progress for the longest time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._callers: dict[M, Caller] = {}
        self._ports: dict[int, _PortPlaces[M]] = {}

    def __len__(self) -> int:
        return len(self._callers)

    def giver(self, caller: Caller) -> M | None:
        """The connection that ends for a newcomer; None when the newcomer has to go."""
        mine = self._ports.get(caller.port)
        largest = max(self._ports.values(), key=lambda port: port.size)
        if mine is None or largest.size > mine.size + 1:
            return largest.giver(-1 if largest.size > 1 else 0)
        return mine.giver(mine.sizes.get(caller.client, 0))

    @property
    def full(self) -> bool:
        """Whether a newcomer needs the place of another."""
        return len(self._callers) >= self._count

    def caller(self, member: M) -> Caller:
        """The client of a connection."""
        return self._callers[member]

    def enter(self, member: M, caller: Caller) -> None:
        """A connection is there, and waits for its client."""
        self._callers[member] = caller
        self._ports.setdefault(caller.port, _PortPlaces()).add(member, caller.client)

    def note(self, member: M, stage: ConnectionStage) -> None:
        """It made progress, to that stage."""
        caller = self._callers.get(member)
        if caller is not None:  # else it was ended
            self._ports[caller.port].note(member, caller.client, stage)

    def leave(self, member: M) -> None:
        """It has ended, or is about to; a second call changes nothing."""
        caller = self._callers.pop(member, None)
        if caller is not None:
            port = self._ports[caller.port]
            port.remove(member, caller.client)
            if not port.size:
                del self._ports[caller.port]
