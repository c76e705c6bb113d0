"""How much of us clients may have: the number of connections, their time, and their turn."""

import asyncio
from collections import deque

import msgspec

Task = asyncio.Task[None]

_AT_ONCE = 4
"""Answers, or pieces of them, in each round of the event loop: all else has its turn between."""


class Limits(msgspec.Struct, frozen=True):
    """What a client may take of us.

    `request_seconds` is for a request to arrive whole, `idle_seconds` for the next one to begin,
    and `piece_seconds` for each 64 KiB of an answer to be taken. Upstream has no such limits.
    """

    connections: int = 1024
    head_bytes: int = 16 << 10
    body_bytes: int = 64 << 10
    request_seconds: float = 10.0
    idle_seconds: float = 120.0
    piece_seconds: float = 30.0


class Room:
    """Where the connections of one or many ports are.

    When it is full, whoever has waited longest without a whole request makes way for another, so
    that clients who ask nothing never keep out one who does. However many ask at once, they are
    answered a few at a time, and long answers are made a few pieces at a time.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._count = 0
        self._waiting: dict[Task, None] = {}
        self._free_turns = _AT_ONCE
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return self._count

    def make_room(self) -> bool:
        """See to it that one more finds room; False when all are at work."""
        if self._count < self.limits.connections:
            return True
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        del self._waiting[longest]
        longest.cancel()
        return True

    def enter(self, task: Task) -> None:
        """The task has a connection; it counts until the task is done."""
        self._count += 1
        task.add_done_callback(self._leave)

    def note(self, task: Task, *, waiting: bool) -> None:
        """The task waits for a request from now on, or has one."""
        self._waiting.pop(task, None)
        if waiting:
            self._waiting[task] = None

    def _leave(self, task: Task) -> None:
        self._count -= 1
        self._waiting.pop(task, None)

    async def wait_turn(self) -> None:
        """Wait until it is our turn to be answered."""
        loop = asyncio.get_running_loop()
        if self._free_turns == 0:
            place = loop.create_future()
            self._queue.append(place)
            await place
            return
        if self._free_turns == _AT_ONCE:
            loop.call_soon(self._begin_round)
        self._free_turns -= 1

    def _begin_round(self) -> None:
        self._free_turns = _AT_ONCE
        while self._queue and self._free_turns:
            place = self._queue.popleft()
            if not place.done():  # else it is somebody who left
                place.set_result(None)
                self._free_turns -= 1
        if self._free_turns < _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._begin_round)
