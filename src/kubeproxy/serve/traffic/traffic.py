"""Reads counters on request, and keeps what is needed for totals that only grow."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import ConnectionCounts, Counts
from kubeproxy.serve.traffic.totals import NOTHING, Look, Tally, Totals, accumulate
from kubeproxy.table.entries import ServicePortName

FRESH = 1.0
"""Seconds for which a reading serves all requests."""
ATTENTION = 60.0
"""Seconds after the last request for rates, after which none are kept."""
PIECE = 250
PAUSE = 0.0002

T = TypeVar("T")


class Traffic:
    """The connections of all services, for any thread but that of the event loop: it blocks.

    `clock` is seconds, as of `time.monotonic`.
    """

    def __init__(
        self, counts: Mapping[Family, Counts], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counts = counts
        self._clock = clock
        self._lock = threading.Lock()
        self._now: dict[Family, Totals] = {}
        self._before: dict[Family, Totals] = {}
        self._rates_asked = float("-inf")

    def totals(self) -> Mapping[Family, Totals]:
        """The totals of each family, not older than a second."""
        with self._lock:
            self._read_all()
            return dict(self._now)

    def looks(self) -> Mapping[Family, Look]:
        """The totals of each family, with those before if they were read not long ago.

        A second call, a second later, gives the rates of that second.
        """
        with self._lock:
            asked, self._rates_asked = self._rates_asked, self._clock()
            self._read_all()
            if self._rates_asked - asked > ATTENTION:
                return {family: Look(now) for family, now in self._now.items()}
            return {
                family: Look(now, self._before.get(family)) for family, now in self._now.items()
            }

    def _read_all(self) -> None:
        for family, counts in self._counts.items():
            self._read(family, counts)

    def _read(self, family: Family, counts: Counts) -> None:
        now = self._clock()
        last = self._now.get(family)
        if last is not None and now - last.time < FRESH:
            return
        try:
            reading = counts.connections()
        except KernelError as error:
            klog.error("Connection counters cannot be read", err=error, ipFamily=family.value)
            return
        if reading is None:
            return
        self._now[family] = _added(last, reading, now)
        if last is not None and now - self._rates_asked <= ATTENTION:
            self._before[family] = last
        else:
            self._before.pop(family, None)


def _added(before: Totals | None, reading: ConnectionCounts, now: float) -> Totals:
    old = before.tallies if before else {}
    reset = before is None or before.epoch != reading.epoch
    tallies: dict[ServicePortName, Tally] = {}
    for name, found in gently(reading.counts):
        tallies[name] = accumulate(old.get(name, NOTHING), found, reset=reset)
    return Totals(now, reading.epoch, tallies)


def gently(items: Iterable[T]) -> Iterator[T]:
    """The items, with pauses for other threads.

    A thread that computes keeps the interpreter for 5 ms at a time, which would be the delay of
    every step of a sync; so it lets go by itself, about once a millisecond.
    """
    for number, item in enumerate(items, 1):
        yield item
        if not number % PIECE:
            time.sleep(PAUSE)
