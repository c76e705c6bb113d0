"""Health as HTTP answers, byte for byte what upstream sends. Functions on values only."""

import json
from datetime import datetime, timedelta, timezone

import msgspec

from kubeproxy.serve.health.state import Families, Instant
from kubeproxy.serve.http.answer import JSON, Answer
from kubeproxy.table.entries import ServiceName

_NEVER = "0001-01-01T00:00:00Z"
_SECOND_NS = 1_000_000_000


class Clock(msgspec.Struct, frozen=True):
    """The time of an answer, and how far the local zone is ahead of UTC then."""

    now: Instant
    ahead_seconds: int = 0


def health_answer(
    families: Families, clock: Clock, timeout: float, *, eligible: bool | None
) -> Answer:
    """The answer of /livez: whether the process lives, and all families that started keep up.

    With `eligible` that of /healthz: whether load balancers should send traffic to this node, too.
    `healthy` in the body is about the syncs alone, as upstream has it: a node that is about to be
    removed answers 503 and `"healthy":true`.
    """
    now = clock.now
    keeps_up = {family: each.is_healthy(now.seconds, timeout) for family, each in families.items()}
    updated = {family: each.updated.wall_ns for family, each in families.items()}
    healthy = all(keeps_up.values())
    well = healthy and eligible is not False
    body: dict[str, object] = {
        "lastUpdated": _time(clock, now.wall_ns if well else max(updated.values(), default=None)),
        "currentTime": _time(clock, now.wall_ns),
        **({} if eligible is None else {"nodeEligible": eligible}),
        "healthy": healthy,
    }
    if families:
        body["status"] = {
            family.value: {
                "lastUpdated": _time(clock, updated[family]),
                "healthy": keeps_up[family],
            }
            for family in sorted(families, key=lambda family: family.value)
        }
    text = json.dumps(body, separators=(",", ":"))
    return Answer(200 if well else 503, JSON, text.encode())


def _time(clock: Clock, wall_ns: int | None) -> str:
    """A time as Go writes it in JSON; None is Go's zero time."""
    if wall_ns is None:
        return _NEVER
    seconds, nanoseconds = divmod(wall_ns, _SECOND_NS)
    zone = timezone(timedelta(seconds=clock.ahead_seconds))
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
