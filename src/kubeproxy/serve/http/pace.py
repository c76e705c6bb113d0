"""Long work in short steps, so that nobody else waits."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

_MOMENT = 0.001
_PIECE = 1 << 16
_RUN = 256
"""So many are sorted in less than a moment."""

T = TypeVar("T")


async def unhurried(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; whenever a moment was spent on them, others get their turn."""
    clock = asyncio.get_running_loop().time
    since = clock()
    for item in items:
        yield item
        if clock() - since >= _MOMENT:
            await asyncio.sleep(0)
            since = clock()


async def paced(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """The pieces, put together to what a moment's work gives; then others get their turn.

    What quick work gives is cut too: a client that reads slowly holds what was put together.
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


async def in_order(
    items: Sequence[T], key: "Callable[[T], SupportsRichComparison]", count: int = 0
) -> list[T]:
    """The first `count` of the items in the order of their keys; all of them when it is 0."""
    runs = [
        sorted(items[start : start + _RUN], key=key)
        async for start in unhurried(range(0, len(items), _RUN))
    ]
    merged = heapq.merge(*runs, key=key)
    return [item async for item in unhurried(islice(merged, count or None))]
