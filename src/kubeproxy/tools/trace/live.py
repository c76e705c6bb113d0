"""The edge of a trace: the socket, the clock, and the thread that keeps asking the daemon."""

import errno
import math
import os
import select
import threading
import time
from collections.abc import Callable

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.linux.conntrack import ConnectionWatch
from kubeproxy.tools.trace.index import Index
from kubeproxy.tools.trace.stream import Trace

# So many events are taken before anything else is looked at: some milliseconds.
_AT_ONCE = 1000
# An answer costs the daemon a reading of all counters: as often as a scrape, if nothing is new.
_SECONDS = 15.0
_HURRIED_SECONDS = 1.0

Remark = Callable[[str], None]


def follow(
    watch: ConnectionWatch, trace: Trace, known: Callable[[], Index], say: Remark, output: int
) -> None:
    """Trace until the bounds are reached. Interrupt it to end it before.

    It ends at once when nobody reads the output any more: of a quiet Service that would not be
    noticed by writing to it for long.
    """
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(output, 0)  # its end is told without being asked for
    lost = 0
    now = time.monotonic()
    end = now + trace.bounds.seconds if trace.bounds.seconds else math.inf
    next_second = now + 1
    while now < end and not trace.is_complete:
        ready = poll.poll(1000 * max(0.0, min(next_second, end) - now))
        if any(descriptor == output for descriptor, _ in ready):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        trace.known = known()
        for event in watch.events(_AT_ONCE):
            trace.take(event)
            if trace.is_complete:
                break
        now = time.monotonic()
        if now >= next_second:
            next_second = now + 1
            lost = _account(trace, watch.lost, lost, say)


def _account(trace: Trace, lost: int, lost_before: int, say: Remark) -> int:
    """Say what was not shown in the second that is over; how much was lost until now."""
    more = trace.limit.begin_second()
    if more:
        say(f"... {more:,} more in the last second (--rate shows more)")
    if lost > lost_before:
        say(f"... {lost - lost_before:,} events of this node came too fast and are lost")
    return lost


class Refresher:
    """Asks again and again whose connections are traced, in a thread of its own.

    What was known stays when nobody answers; that is said once.
    """

    def __init__(self, known: Index, look: Callable[[], Index], say: Remark) -> None:
        self.known = known
        self._look = look
        self._say = say
        self._needed = threading.Event()
        self._failing = False

    def start(self) -> None:
        """Begin; it ends with the process."""
        threading.Thread(target=self._run, daemon=True).start()

    def hurry(self) -> None:
        """Ask soon: something was met that nobody has told of."""
        self._needed.set()

    def refresh(self) -> None:
        """Ask now."""
        try:
            self.known = self._look()
        except KubeProxyError as error:
            if not self._failing:
                self._say(f"... going on with the endpoints known so far: {error}")
            self._failing = True
        else:
            if self._failing:
                self._say("... the daemon answers again")
            self._failing = False

    def _run(self) -> None:
        while True:
            time.sleep(_HURRIED_SECONDS)
            self._needed.wait(_SECONDS - _HURRIED_SECONDS)
            self._needed.clear()
            self.refresh()
