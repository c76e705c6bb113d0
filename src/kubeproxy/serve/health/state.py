"""Whether the syncs of a family keep up with the changes. Functions on values only.

A family is healthy unless a change has been waiting for its sync for as long as the time-out: one
without changes is always healthy.
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
    """One family: when it was last in sync, and since when a change waits.

    `wanted` is since when a change waits for a sync to start, `running` that of the sync that runs
    now: they are kept apart, because that sync does not include what came after its start.
    """

    updated: Instant
    wanted: float | None = None
    running: float | None = None

    def waiting(self, now: float) -> float | None:
        """For how many seconds a change has been waiting; None when none is."""
        oldest = _older(self.running, self.wanted)
        return None if oldest is None else now - oldest

    def is_healthy(self, now: float, timeout: float) -> bool:
        """Whether nothing has waited too long."""
        waiting = self.waiting(now)
        return waiting is None or waiting < timeout


Families = Mapping[Family, FamilyHealth]


def observe(families: Families, observation: Observation, now: Instant) -> Families:
    """The state after an observation; a family is known from its first one.

    That may be the start of its loop or the request for its first sync: they come from two tasks.
    """
    match observation:
        case LoopStarted(family) | SyncRequested(family) | SyncStarted(family) | SyncEnded(family):
            health = families.get(family) or FamilyHealth(now)
        case _:
            return families
    replace, oldest = msgspec.structs.replace, _older(health.running, health.wanted)
    match observation:
        case SyncRequested() if health.wanted is None:
            health = replace(health, wanted=now.seconds)
        case SyncStarted():
            health = replace(health, wanted=None, running=oldest)
        case SyncEnded(outcome=Outcome.FAILED):
            health = replace(health, wanted=oldest, running=None)
        case SyncEnded():
            # PARTLY is healthy, too: one bad service must not take the node out of load balancers.
            health = replace(health, updated=now, running=None)
    return {**families, family: health}


def _older(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)
