"""Health as HTTP answers, byte for byte what upstream sends. Functions on values only."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.serve.health.state import Families, Instant
from kubeproxy.serve.http.answer import JSON, Answer
from kubeproxy.table.entries import ServiceName

_NEVER = "0001-01-01T00:00:00Z"
_SECOND_NS = 1_000_000_000


class Clock(msgspec.Struct, frozen=True):
    """The time of an answer, and how far the local zone is ahead of UTC then."""

    now: Instant
    ahead_seconds: int = 0


class HealthVerdict(msgspec.Struct, frozen=True):
    """Every family that has started, and whether each keeps up."""

    families: Families
    healthy_families: Mapping[Family, bool]

    @property
    def healthy(self) -> bool:
        """Whether all of them keep up; true while none has started."""
        return all(self.healthy_families.values())


def judge(families: Families, now: Instant, timeout: float) -> HealthVerdict:
    """The health of the families at the moment."""
    return HealthVerdict(
        families,
        {family: each.is_healthy(now.seconds, timeout) for family, each in families.items()},
    )


def livez(verdict: HealthVerdict, clock: Clock) -> Answer:
    """Whether the process lives and syncs."""
    return _answer(verdict, clock, verdict.healthy, {})


def healthz(verdict: HealthVerdict, clock: Clock, *, eligible: bool) -> Answer:
    """Whether load balancers should send traffic to this node.

    `healthy` in the body is about the syncs alone, as upstream has it: a node that is about to
    be removed answers 503 and `"healthy":true`.
    """
    return _answer(verdict, clock, verdict.healthy and eligible, {"nodeEligible": eligible})


def _answer(verdict: HealthVerdict, clock: Clock, well: bool, extra: Mapping[str, bool]) -> Answer:  # noqa: FBT001  # it is the question
    body: dict[str, object] = {
        "lastUpdated": _time(clock, clock.now.wall_ns if well else _last_updated(verdict)),
        "currentTime": _time(clock, clock.now.wall_ns),
        **extra,
        "healthy": verdict.healthy,
    }
    if verdict.families:
        body["status"] = {
            family.value: {
                "lastUpdated": _time(clock, verdict.families[family].updated.wall_ns),
                "healthy": verdict.healthy_families[family],
            }
            for family in sorted(verdict.families, key=lambda family: family.value)
        }
    text = json.dumps(body, separators=(",", ":"))
    return Answer(200 if well else 503, JSON, text.encode())


def _last_updated(verdict: HealthVerdict) -> int | None:
    return max((each.updated.wall_ns for each in verdict.families.values()), default=None)


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
