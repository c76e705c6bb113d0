"""Which endpoint a client gets: the next one in turn, or with session affinity the one it had."""

from collections.abc import Sequence

import msgspec

Target = tuple[str, int]
"""The address and port of an endpoint."""


class Pin(msgspec.Struct):
    """The endpoint that a client of a service port has, and when it was last used."""

    target: Target
    used: float


class Choices:
    """The choices of one service port.

    All of its lists share the pins: a client keeps its endpoint wherever it dials, as long as
    that endpoint is in the list. Each list has a turn of its own.
    """

    def __init__(self) -> None:
        self.affinity_seconds = 0
        self._turns: dict[int, int] = {}
        self._pins: dict[str, Pin] = {}

    def _next(self, number: int, targets: Sequence[Target]) -> Target:
        """The next one in turn of the list of that number, which is not empty."""
        turn = self._turns.get(number, 0)
        self._turns[number] = turn + 1
        return targets[turn % len(targets)]

    def choose(self, number: int, targets: Sequence[Target], client: str, now: float) -> Target:
        """The endpoint for a client: its own while that is in the list, else the next one."""
        if not self.affinity_seconds:
            return self._next(number, targets)
        pin = self._pins.pop(client, None)
        if pin is None or now - pin.used > self.affinity_seconds or pin.target not in targets:
            pin = Pin(self._next(number, targets), now)
        pin.used = now
        self._pins[client] = pin  # at the end: the first is the one that was not used for longest
        return pin.target

    def failed(self, client: str, target: Target) -> None:
        """The endpoint could not be reached: its client gets another one."""
        pin = self._pins.get(client)
        if pin is not None and pin.target == target:
            del self._pins[client]

    def forget_idle(self, now: float) -> None:
        """Forget the pins that have expired; all of them without session affinity."""
        while self._pins:
            client = next(iter(self._pins))
            if self.affinity_seconds and now - self._pins[client].used <= self.affinity_seconds:
                break
            del self._pins[client]

    @property
    def pins(self) -> int:
        """How many clients have an endpoint of their own."""
        return len(self._pins)
