"""What a trace writes: each connection, once it is known whether it was answered."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kubeproxy.linux.conntrack import statuses
from kubeproxy.tools.command import say
from kubeproxy.tools.trace.connections import Shown, Traced
from kubeproxy.tools.trace.waiting import Awaited, Waiting


class Screen:
    """Standard output. `needed` is set when an endpoint is shown that is not known."""

    def __init__(
        self,
        lines: Callable[[Shown, datetime], Iterator[str]],
        needed: threading.Event,
    ) -> None:
        self.output = sys.stdout.fileno()
        self._lines = lines
        self._needed = needed
        self._waiting = Waiting()

    @property
    def next(self) -> float:
        """When `settle` should be called, by the steady clock."""
        return self._waiting.next

    @property
    def is_done(self) -> bool:
        """Whether all is written."""
        return not self._waiting

    def take(self, traced: Shown) -> None:
        """A connection has begun, or it is known already what became of it."""
        now = datetime.now(UTC).astimezone()
        if not isinstance(traced, Traced):
            self._write(traced, now)
            return
        if traced.endpoint is not None and traced.detail is None:
            self._needed.set()
        self._waiting.add(Awaited(traced, now, time.monotonic()))

    def settle(self) -> None:
        """Write those of which it is known by now what became of them."""
        now = time.monotonic()
        self._settle(self._waiting.due(now), now)

    def finish(self) -> None:
        """Write them all, though of some it is not known yet."""
        self._settle(self._waiting.rest(), time.monotonic())
        for each in self._waiting.rest():
            self._write(each.traced, each.at)

    def _settle(self, awaited: list[Awaited], now: float) -> None:
        if awaited:
            entries = statuses(each.traced.connection for each in awaited)
            for each in self._waiting.settle(awaited, entries, now):
                self._write(each.traced, each.at)

    def _write(self, traced: Shown, at: datetime) -> None:
        for line in self._lines(traced, at):
            write(line)


def write(line: str) -> None:
    """Write a line that is read at once, also at the other end of a pipe."""
    say(line)
    sys.stdout.flush()
