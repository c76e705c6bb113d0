"""Whether the syncs of a family keep up with what they are asked for. Functions on values only.

A family is healthy unless something has been waiting to be synced for as long as the time-out:
one that has nothing to do is healthy for ever.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import (
    LoopStarted,
    Observation,
    SyncEnded,
    SyncRequested,
    SyncStarted,
)
from kubeproxy.engine.schedule import Outcome


class Instant(NamedTuple):
    """A point in time on two clocks: one that never jumps, and the one that people read."""

    seconds: float
    wall_ns: int


class FamilyHealth(msgspec.Struct, frozen=True):
    """One family: when it was last in sync, and since when something waits.

    `wanted` is what no sync has taken up yet, `running` what the sync that runs now took up: it
    has to be remembered apart, because that sync does not see to what came after it began.
    """

    updated: Instant
    wanted: float | None = None
    running: float | None = None

    def waiting(self, now: float) -> float | None:
        """How many seconds something has been waiting; None when nothing is."""
        oldest = _older(self.running, self.wanted)
        return None if oldest is None else now - oldest

    def is_healthy(self, now: float, timeout: float) -> bool:
        """Whether nothing has waited too long."""
        waiting = self.waiting(now)
        return waiting is None or waiting < timeout


Families = Mapping[Family, FamilyHealth]


def observe(families: Families, observation: Observation, now: Instant) -> Families:
    """The state after something happened; a family is known from the first that is heard of it.

    That may be the start of its loop or a wish for its first sync: they come from two tasks.
    """
    match observation:
        case LoopStarted(family) | SyncRequested(family) | SyncStarted(family) | SyncEnded(family):
            health = families.get(family) or FamilyHealth(now)
            return {**families, family: _after(health, observation, now)}
    return families


def _after(
    health: FamilyHealth,
    observation: LoopStarted | SyncRequested | SyncStarted | SyncEnded,
    now: Instant,
) -> FamilyHealth:
    replace = msgspec.structs.replace
    match observation:
        case LoopStarted():
            return health
        case SyncRequested():
            return health if health.wanted is not None else replace(health, wanted=now.seconds)
        case SyncStarted():
            return replace(health, wanted=None, running=_older(health.running, health.wanted))
        case SyncEnded(outcome=Outcome.FAILED):
            return replace(health, wanted=_older(health.running, health.wanted), running=None)
        case _:
            # PARTLY is well, too: one bad service must not take the node out of load balancers.
            return replace(health, updated=now, running=None)


def _older(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)
