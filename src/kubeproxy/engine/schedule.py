"""When the next sync is due. Time is an argument; nothing here waits or reads a clock.

Requests are coalesced: there is at least `min_period` between the end of a sync and the start of
the next. A failed sync is retried after growing delays, of `retry_period` at most. A full sync,
which compares everything with the kernel, is due every `full_period`.
"""

from enum import Enum

import msgspec

FIRST_RETRY = 0.5


class Outcome(Enum):
    """How a sync ended: PARTLY without some services, FAILED with an unknown actual state."""

    OK = "ok"
    PARTLY = "partly"
    FAILED = "failed"


class Schedule(msgspec.Struct, frozen=True):
    """The periods, in seconds."""

    min_period: float
    retry_period: float
    full_period: float


class Progress(msgspec.Struct, frozen=True):
    """The syncs so far.

    `failures` counts the syncs in a row that were not OK. `stale` says that the actual state is
    not known, because the last sync failed: the next is full. `urgent` says that it is known to
    be wrong, so that the minimum period does not hold.
    """

    requested: bool = False
    ended: float | None = None
    full_ended: float | None = None
    failures: int = 0
    stale: bool = True
    urgent: bool = False


def request(progress: Progress) -> Progress:
    """A sync is requested."""
    return msgspec.structs.replace(progress, requested=True)


def invalidate(progress: Progress) -> Progress:
    """The actual state is wrong: a full sync is due at once."""
    return msgspec.structs.replace(progress, requested=True, stale=True, urgent=True)


def finish(progress: Progress, now: float, outcome: Outcome, *, full: bool) -> Progress:
    """A sync has ended; requests since its start are still open."""
    failed = outcome is Outcome.FAILED
    return msgspec.structs.replace(
        progress,
        ended=now,
        full_ended=now if full and not failed else progress.full_ended,
        failures=0 if outcome is Outcome.OK else progress.failures + 1,
        stale=failed or progress.urgent,
    )


def begin(progress: Progress) -> Progress:
    """A sync begins: it serves every request so far."""
    return msgspec.structs.replace(progress, requested=False, urgent=False)


def next_sync(schedule: Schedule, progress: Progress) -> float | None:
    """When the next sync is due; None before the first request."""
    if progress.ended is None:
        return 0.0 if progress.requested else None
    due = []
    if progress.requested:
        due.append(progress.ended)
    if progress.failures:
        due.append(progress.ended + retry_delay(schedule, progress.failures))
    if progress.full_ended is not None:
        due.append(progress.full_ended + schedule.full_period)
    if not due:
        return None
    if progress.urgent:
        return progress.ended
    return max(min(due), progress.ended + schedule.min_period)


def retry_delay(schedule: Schedule, failures: int) -> float:
    """Seconds between a failure and the next try: doubling, and bounded."""
    return float(min(FIRST_RETRY * 2.0 ** min(failures - 1, 32), schedule.retry_period))


def is_full_due(schedule: Schedule, progress: Progress, now: float) -> bool:
    """Whether the sync that begins now must compare everything with the kernel."""
    if progress.stale or progress.full_ended is None:
        return True
    return now >= progress.full_ended + schedule.full_period
