"""The latest syncs of each family, and how many there were: all that is kept between requests."""

from collections import deque
from collections.abc import Callable

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import Observation, SyncEnded, SyncStarted
from kubeproxy.engine.schedule import Outcome

LATEST = 100


class Past(msgspec.Struct, frozen=True, gc=False):
    """A sync that has ended; `at` is seconds of the wall clock. Numbers only: it is kept long."""

    at: float
    seconds: float
    full: bool
    outcome: Outcome
    added: int
    changed: int
    removed: int
    written: int


class FamilyHistory:
    """The syncs of one family. `running` says that one has begun and not ended."""

    def __init__(self) -> None:
        self.running = False
        self.latest: deque[Past] = deque(maxlen=LATEST)
        self.last_full: Past | None = None
        self.count = 0
        self.failures = 0

    def add(self, ended: SyncEnded, now: float) -> None:
        """One more sync has ended."""
        past = Past(
            at=now,
            seconds=ended.seconds,
            full=ended.full,
            outcome=ended.outcome,
            added=len(ended.changes.added),
            changed=len(ended.changes.changed),
            removed=len(ended.changes.removed),
            written=ended.report.written if ended.report else 0,
        )
        self.running = False
        self.latest.append(past)
        self.count += 1
        self.failures += past.outcome is Outcome.FAILED
        if past.full:
            self.last_full = past


class History:
    """Observes the syncs of all families; `clock` is Unix time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._families: dict[Family, FamilyHistory] = {}
        self._clock = clock

    def of(self, family: Family) -> FamilyHistory:
        """The history of a family, which may be empty."""
        return self._families.setdefault(family, FamilyHistory())

    def observe(self, observation: Observation) -> None:
        """Take note of syncs that begin and end."""
        if isinstance(observation, SyncStarted):
            self.of(observation.family).running = True
        elif isinstance(observation, SyncEnded):
            self.of(observation.family).add(observation, self._clock())
