"""What clients have met, as values: connections and stalls in, figures out."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from bench.figures import Metric, Run
from bench.machine import Code, Machine

SLOW = 0.9
"""Seconds. The first SYN is sent again after one: a connection that took longer needed that."""
AGAIN = 1.5
"""Seconds in which a connection has its answer whose first SYN was sent again once."""
STALL = 1.0
"""Seconds without an answer from which on a long-lived connection is stalled."""


class Failure(Enum):
    """Why a connection had no answer."""

    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    RESET = "reset"
    UNREACHABLE = "unreachable"


METRICS = (
    Metric("connects", "new connections", "", 0),
    Metric(Failure.REFUSED.value, "  refused", "", 0),
    Metric(Failure.TIMED_OUT.value, "  timed out", "", 0),
    Metric(Failure.RESET.value, "  reset before the answer", "", 0),
    Metric(Failure.UNREACHABLE.value, "  unreachable", "", 0),
    Metric("slow", f"  answered after more than {SLOW} s", "", 0),
    Metric("share", f"  of these and the failed, answered within {AGAIN} s", "%"),
    Metric("slowest", "  longest time to an answer", "s"),
    Metric("kept", "long-lived connections", "", 0),
    Metric("broken", "  broken, and made again", "", 0),
    Metric("stalls", f"  stalls of more than {STALL:.0f} s", "", 0),
    Metric("stalled", "  stalled, together", "s"),
    Metric("longest", "  longest time without an answer", "s"),
    Metric("unanswered", "  without an answer at the end", "", 0),
)
_LONGEST = ("slowest", "longest", "late")
_OF = ": "
ALWAYS = ("connects", "kept")
"""These are shown even if there were none."""


class Effort(msgspec.Struct, frozen=True):
    """How much load, and how long everything takes, in seconds."""

    rate: int = 100
    """New connections a second, from each client."""
    kept: int = 20
    """Long-lived connections of each client."""
    timeout: float = 10.0
    """A client gives up a connection that has no first answer by then."""
    before: float = 2.0
    """The load before anything happens."""
    step: float = 10.0
    """A rolling update replaces a pod in this time."""
    lag: float = 1.0
    """An endpoint refuses for so long before its slice says that it is gone."""
    pod_lost: float = 10.0
    """A pod is unreachable for so long before its slice says so."""
    node_lost: float = 40.0
    """The same for a node: by default Kubernetes gives one up after 40 seconds."""
    after: float = 20.0
    """The load after the last event."""
    repair: float = 35.0
    """The load after the proxy's tables were deleted; the default sync period is 30 seconds."""


QUICK = Effort(timeout=5.0, before=1.0, step=2.0, pod_lost=3.0, node_lost=5.0, after=3.0, repair=5)


class Seen(msgspec.Struct, frozen=True):
    """What one client has met."""

    connects: int
    failed: dict[Failure, int]
    slow: list[float]
    """Seconds until an answer, of those that took so long."""
    kept: int
    broken: int
    gaps: list[float]
    """Times between two answers on a long-lived connection, if longer than a stall."""
    unanswered: int
    """Long-lived connections that were stalled when the load ended."""
    late: float
    """The longest time by which a connection began later than the pace asked for."""


class Results(msgspec.Struct, frozen=True):
    """All figures of one `make bench-outage`; the size of a run is its scenario and its client."""

    date: str
    command: str
    machine: Machine
    code: Code
    proxies: dict[str, str]
    effort: Effort
    outages: list[Run]


def failure(error: OSError) -> Failure:
    """What kind of failure an error is, to a client."""
    if isinstance(error, ConnectionRefusedError):
        return Failure.REFUSED
    if isinstance(error, ConnectionError):
        return Failure.RESET
    return Failure.TIMED_OUT if isinstance(error, TimeoutError) else Failure.UNREACHABLE


def figures(seen: Seen) -> dict[str, float]:
    """The figures of a client."""
    return {
        "connects": seen.connects,
        **{each.value: seen.failed.get(each, 0) for each in Failure},
        "slow": len(seen.slow),
        "soon": sum(each < AGAIN for each in seen.slow),
        "slowest": max(seen.slow, default=0.0),
        "kept": seen.kept,
        "broken": seen.broken,
        "stalls": len(seen.gaps),
        "stalled": sum(gap - STALL for gap in seen.gaps),
        "longest": max(seen.gaps, default=0.0),
        "unanswered": seen.unanswered,
        "late": seen.late,
    }


def with_share(found: dict[str, float]) -> dict[str, float]:
    """With the share of the connections in trouble that one retransmission helped."""
    troubled = failed(found) + found.get("slow", 0)
    return {**found, "share": 100 * found.get("soon", 0) / troubled} if troubled else found


def failed(found: Mapping[str, float]) -> float:
    """How many new connections failed, for any reason."""
    return sum(found.get(each.value, 0) for each in Failure)


def size(scenario: str, client: str) -> str:
    """The name under which a run's figures stand."""
    return f"{scenario}{_OF}{client}"


def together(runs: Iterable[Run]) -> list[Run]:
    """Runs with the figures of all clients as one: sums, and the longest of all."""
    found: dict[tuple[str, str, int], Run] = {}
    for run in runs:
        scenario = run.size.partition(_OF)[0]
        key = (run.proxy, scenario, run.number)
        known = found.get(key, msgspec.structs.replace(run, size=scenario, figures={}))
        found[key] = msgspec.structs.replace(known, figures=_sums(known.figures, run.figures))
    return list(found.values())


def _sums(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {
        key: max(one.get(key, 0), value) if key in _LONGEST else one.get(key, 0) + value
        for key, value in other.items()
    }


def is_in(path: Path) -> bool:
    """Whether a file has results of this kind."""
    return "outages" in msgspec.json.decode(path.read_bytes())


def read(path: Path) -> Results:
    """Results out of a file."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path) -> None:
    """Results into a file, for people to compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = msgspec.structs.replace(results, outages=_rounded(results.outages))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded), indent=1) + b"\n")


def _rounded(runs: Sequence[Run]) -> list[Run]:
    """Without digits that mean nothing."""
    return [
        msgspec.structs.replace(
            run, figures={key: round(value, 3) for key, value in run.figures.items()}
        )
        for run in runs
    ]
