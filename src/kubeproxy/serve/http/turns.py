"""Whose turn it is: one at a time, and each client's in turn."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable


class Turns:
    """However many ask at once, one of them is answered in each round of the event loop.

    So all else has its turn between. Who asks a lot waits for itself: the clients take turns,
    whatever number of requests each of them has.
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
            if not place.done():  # else it is somebody who left
                place.set_result(None)
                self._taken = True
        if self._taken:
            asyncio.get_running_loop().call_soon(self._begin_round)
