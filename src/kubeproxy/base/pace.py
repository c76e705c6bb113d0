"""Long work on the event loop in short steps, so that syncs and other requests do not wait."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from kubeproxy.base.steps import Steps

_MOMENT = 0.001
_PIECE = 1 << 16

T = TypeVar("T")


async def run(steps: Steps[T], moment: float = _MOMENT) -> T:
    """What the steps come to; other tasks run after each moment of them, in seconds."""
    clock = asyncio.get_running_loop().time
    since = clock()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if clock() - since >= moment:
            await asyncio.sleep(0)
            since = clock()


async def paced(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """The pieces, joined to what a millisecond's work gives; other tasks run in between.

    What quick work gives is cut too: a client that reads slowly holds what was joined.
    """
    clock = asyncio.get_running_loop().time
    waiting = bytearray()
    since = clock()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _PIECE or clock() - since >= _MOMENT:
            yield bytes(waiting)
            waiting.clear()
            await asyncio.sleep(0)
            since = clock()
    yield bytes(waiting)
