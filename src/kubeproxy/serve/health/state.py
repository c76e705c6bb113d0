"""Whether the syncs of a family keep up with the changes, and how that is answered. No I/O.

A family is healthy unless a change has been waiting for its sync for as long as the time-out: one
without changes is always healthy. Answers are byte for byte what upstream sends.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timezone
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
from kubeproxy.serve.http.answer import JSON, Answer
from kubeproxy.table.entries import ServiceName


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


# --- answers ----------------------------------------------------------------------------------


def health_answer(
    families: Families, now: Instant, zone: timezone, timeout: float, *, eligible: bool | None
) -> Answer:
    """The answer of /livez: whether the process lives, and all families that started keep up.

    With `eligible` that of /healthz: whether load balancers should send traffic to this node, too.
    `healthy` in the body is about the syncs alone, as upstream has it: a node that is about to be
    removed answers 503 and `"healthy":true`.
    """
    keeps_up = {family: each.is_healthy(now.seconds, timeout) for family, each in families.items()}
    updated = {family: each.updated.wall_ns for family, each in families.items()}
    healthy = all(keeps_up.values())
    well = healthy and eligible is not False
    body: dict[str, object] = {
        "lastUpdated": _time(zone, now.wall_ns if well else max(updated.values(), default=None)),
        "currentTime": _time(zone, now.wall_ns),
        **({} if eligible is None else {"nodeEligible": eligible}),
        "healthy": healthy,
    }
    if families:
        body["status"] = {
            family.value: {
                "lastUpdated": _time(zone, updated[family]),
                "healthy": keeps_up[family],
            }
            for family in sorted(families, key=lambda family: family.value)
        }
    text = json.dumps(body, separators=(",", ":"))
    return Answer(200 if well else 503, JSON, text.encode())


def _time(zone: timezone, wall_ns: int | None) -> str:
    """A time as Go writes it in JSON; None is Go's zero time."""
    if wall_ns is None:
        return "0001-01-01T00:00:00Z"
    seconds, nanoseconds = divmod(wall_ns, 10**9)
    whole = datetime.fromtimestamp(seconds, zone).isoformat()
    day, offset = whole[:19], whole[19:]
    fraction = f".{nanoseconds:09d}".rstrip("0").rstrip(".")
    return day + fraction + ("Z" if offset == "+00:00" else offset)


def service_health(service: ServiceName, local_endpoints: int, *, healthy: bool) -> Answer:
    """What a service's health-check port of this node answers a load balancer."""
    headers = (*JSON, ("X-Load-Balancing-Endpoint-Weight", str(local_endpoints)))
    body = {
        "service": {"namespace": service.namespace, "name": service.service},
        "localEndpoints": local_endpoints,
        "serviceProxyHealthy": healthy,
    }
    well = local_endpoints > 0 and healthy
    return Answer(200 if well else 503, headers, json.dumps(body, indent="\t").encode())
