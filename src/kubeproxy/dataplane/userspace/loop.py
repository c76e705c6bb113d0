"""An event loop for relaying: epoll, edge-triggered, and timers.

asyncio asks the kernel to change what it waits for whenever a buffer fills or empties, and makes
objects for every event; here a descriptor is registered once, and an event is one call. That is
what lets a worker have thousands of connections a second.
"""

import select
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Handler = Callable[[int], None]
"""Called with what epoll says of a descriptor."""

BOTH = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_EVENTS_AT_ONCE = 512


class Timer:
    """Something to be done at a time, unless it is cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None] | None) -> None:
        self.call = call

    def cancel(self) -> None:
        """Do not do it."""
        self.call = None


class Loop:
    """Calls handlers when something happens to their descriptors."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._soon: deque[Callable[[], None]] = deque()
        self._runs = False

    def watch(self, descriptor: int, handler: Handler, events: int = BOTH) -> None:
        """Call the handler for these events of a descriptor, from now on."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Call its handler no more; before the descriptor is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call this after some seconds."""
        timer = Timer(call)
        heappush(self._timers, (self.now + seconds, next(self._numbers), timer))
        return timer

    def soon(self, call: Callable[[], None]) -> None:
        """Call this when the events of now have been handled."""
        self._soon.append(call)

    def stop(self) -> None:
        """Return from `run` after the events of now."""
        self._runs = False

    def run(self) -> None:
        """Handle events until stopped."""
        self._runs = True
        while self._runs:
            events = self._epoll.poll(self._pause(), _EVENTS_AT_ONCE)
            self.now = time.monotonic()
            for descriptor, event in events:
                # One that was closed by a handler before has none any more.
                handler = self._handlers.get(descriptor)
                if handler is not None:
                    handler(event)
            for _ in range(len(self._soon)):
                self._soon.popleft()()
            self._ring()
        self._epoll.close()

    def _pause(self) -> float:
        if self._soon:
            return 0
        if not self._timers:
            return -1
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _ring(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            call = heappop(timers)[2].call
            if call is not None:
                call()
