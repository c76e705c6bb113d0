"""Limits for clients: the number of their connections, their time, and their turn."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.bursts import Bursts
from kubeproxy.linux.descriptors import share
from kubeproxy.serve.http.places import Caller, ConnectionStage, Places

Task = asyncio.Task[None]


class Limits(msgspec.Struct, frozen=True):
    """What clients may take.

    `connections` are for clients of this node, and as many for all others; where descriptors are
    few, there are fewer. `request_seconds` is for a request to arrive whole, `idle_seconds` for
    the next one to begin, and `piece_seconds` for each 64 KiB of an answer to be read. Upstream
    has no such limits.
    """

    connections: int = 1024
    head_bytes: int = 16 << 10
    body_bytes: int = 64 << 10
    request_seconds: float = 10.0
    idle_seconds: float = 120.0
    piece_seconds: float = 30.0


class Turns:
    """One request is answered in each round of the event loop, so that other tasks run in between.

    Clients take turns, whatever number of requests each of them has.
    """

    def __init__(self) -> None:
        self._taken = False
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    async def wait(self, client: Hashable) -> None:
        """Wait until it is the client's turn."""
        loop = asyncio.get_running_loop()
        if self._taken:
            place = loop.create_future()
            self._queues.setdefault(client, deque()).append(place)
            await place
        else:
            self._taken = True
            loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._taken = False
        while self._queues and not self._taken:
            client, queue = self._queues.popitem(last=False)
            place = queue.popleft()
            if queue:
                self._queues[client] = queue
            if not place.done():  # else its client has gone
                place.set_result(None)
                self._taken = True
        if self._taken:
            asyncio.get_running_loop().call_soon(self._begin_round)


class Room:
    """The connections of one or many ports.

    Clients of this node have places and turns that others cannot take: the kubelet restarts a
    proxy that does not answer. So have first requests of connections, as most probes are: later
    ones cannot keep them out. `Places` and `Turns` say how the rest is shared.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._turns = {(own, first): Turns() for own in (False, True) for first in (False, True)}
        count = min(self.limits.connections, share())
        self._own = Places[Task](count)
        self._others = Places[Task](count)
        self._bursts = Bursts()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._own) + len(self._others)

    def make_room(self, caller: Caller) -> bool:
        """Make room for one more, by ending a connection if need be; False when it is rejected."""
        places = self._places(caller)
        if not places.full:
            return True
        giver = places.giver(caller)
        if self._bursts.begins(asyncio.get_running_loop().time()):
            most = places.caller(giver) if giver else caller
            klog.warning(
                "Too many connections, the client with most of them loses some",
                port=most.port,
                client=most.client,
            )
        if giver is None:
            return False
        places.leave(giver)
        giver.cancel()
        return True

    def enter(self, task: Task, caller: Caller) -> None:
        """The task has a connection; it counts until the task is done."""
        places = self._places(caller)
        places.enter(task, caller)
        task.add_done_callback(places.leave)

    def note(self, caller: Caller, stage: ConnectionStage) -> None:
        """The current task made progress, to that stage."""
        task = asyncio.current_task()
        if task is not None:
            self._places(caller).note(task, stage)

    async def wait_turn(self, caller: Caller, stage: ConnectionStage) -> None:
        """Wait for the turn of the client."""
        await self._turns[caller.own, stage is ConnectionStage.FIRST].wait(caller)

    def _places(self, caller: Caller) -> Places[Task]:
        return self._own if caller.own else self._others
