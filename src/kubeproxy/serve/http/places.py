"""Places for connections, and who gives up one when there are too many. No I/O.

Nobody is kept from taking what others leave. When all is taken, a newcomer gets the place of
somebody who has more: first the port with most connections gives, and on that port the client
with most. So whatever one client does costs the others on its port one place at a time, which
they get back when they ask, and clients of one port cost those of another nothing.
"""

from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

from kubeproxy.serve.http.caller import Caller

M = TypeVar("M", bound=Hashable)


class Stage(Enum):
    """What a connection is doing."""

    WAITING = "waits for its client: for a request, or for an answer to be taken"
    AGAIN = "waits for an answer or gets one, and has had one before"
    FIRST = "waits for its first answer, or gets it"


class _Port(Generic[M]):
    """The connections of one port, by client; who made progress last is last in each mapping."""

    def __init__(self) -> None:
        self.size = 0
        self.sizes: dict[str, int] = {}
        self._members: dict[str, dict[Stage, dict[M, None]]] = {}

    def add(self, member: M, client: str) -> None:
        self.size += 1
        self.sizes[client] = self.sizes.get(client, 0) + 1
        stages = self._members.setdefault(client, {stage: {} for stage in Stage})
        stages[Stage.WAITING][member] = None

    def remove(self, member: M, client: str) -> None:
        self.size -= 1
        self.sizes[client] -= 1
        for members in self._members[client].values():
            members.pop(member, None)
        if not self.sizes[client]:
            del self.sizes[client], self._members[client]

    def note(self, member: M, client: str, stage: Stage) -> None:
        stages = self._members[client]
        for members in stages.values():
            members.pop(member, None)
        stages[stage][member] = None
        self.sizes[client] = self.sizes.pop(client)

    def giver(self, held: int) -> M | None:
        """Whose place goes to a client that has `held` of them.

        A first answer is cut off only for a client that still has fewer afterwards.
        """
        largest = max(self.sizes, key=self.sizes.__getitem__)
        for stage, members in self._members[largest].items():
            if members and (stage is not Stage.FIRST or self.sizes[largest] > held + 1):
                return next(iter(members))
        return None


class Places(Generic[M]):
    """So many places; `M` is whatever stands for a connection.

    Of a client's connections the one goes that comes first in the order of `Stage`, and has been
    without progress for the longest time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._callers: dict[M, Caller] = {}
        self._ports: dict[int, _Port[M]] = {}

    def __len__(self) -> int:
        return len(self._callers)

    def giver(self, caller: Caller) -> M | None:
        """Who has to go so that the newcomer finds a place; None when nobody should."""
        mine = self._ports.get(caller.port)
        largest = max(self._ports.values(), key=_size)
        if mine is None or largest.size > mine.size + 1:
            return largest.giver(-1 if largest.size > 1 else 0)
        return mine.giver(mine.sizes.get(caller.client, 0))

    @property
    def full(self) -> bool:
        """Whether a newcomer needs somebody else's place."""
        return len(self._callers) >= self._count

    def caller(self, member: M) -> Caller:
        """Whose connection it is."""
        return self._callers[member]

    def enter(self, member: M, caller: Caller) -> None:
        """A connection is there, and waits for its client."""
        self._callers[member] = caller
        self._ports.setdefault(caller.port, _Port()).add(member, caller.client)

    def note(self, member: M, stage: Stage) -> None:
        """It made progress, to that stage."""
        caller = self._callers.get(member)
        if caller is not None:  # else it has been told to go
            self._ports[caller.port].note(member, caller.client, stage)

    def leave(self, member: M) -> None:
        """It is no more, or soon will be no more; saying it twice does no harm."""
        caller = self._callers.pop(member, None)
        if caller is not None:
            port = self._ports[caller.port]
            port.remove(member, caller.client)
            if not port.size:
                del self._ports[caller.port]


def _size(port: _Port[M]) -> int:
    return port.size
