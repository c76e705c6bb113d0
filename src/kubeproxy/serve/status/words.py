"""Numbers, times and settings as people read them, for the terminal and the page."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from kubeproxy.base.inet import Prefix
from kubeproxy.base.printable import printable
from kubeproxy.base.version import described
from kubeproxy.explain.words import duration
from kubeproxy.serve.status.wire import DaemonStatus, EndpointDetail, FastPathStatus, PortDetail

UNKNOWN: Final = "\N{EN DASH}"
_SHOWN: Final = 20


def program(status: DaemonStatus) -> str:
    """Which program it is, and the release whose behaviour it follows."""
    return described(status.commit, status.version, status.kubernetes_version)


def count(number: int) -> str:
    """A number, its thousands apart."""
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """A number and what it counts."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def rate(per_second: float | None) -> str:
    """How many in a second; a dash when that is not known."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 100 or not per_second:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}"


def connections(number: int | None) -> str:
    """How many connections; a dash when they are not counted."""
    return UNKNOWN if number is None else count(number)


def elapsed(seconds: float) -> str:
    """How long something took: `0.42 ms`, `12 ms`, `1.25 s`."""
    milliseconds = seconds * 1000
    if milliseconds < 10:
        return f"{max(milliseconds, 0.01):.2g} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{seconds:.3g} s"


def span(seconds: float) -> str:
    """How long something has lasted, in its two largest units."""
    whole = int(max(0.0, seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {whole % 60} s"
    return f"{whole} s"


def size(number: int) -> str:
    """Bytes as megabytes."""
    return f"{number / 1e6:,.0f} MB"


def clock(stamp: str) -> str:
    """The time of day of an RFC 3339 stamp, in UTC as the log has it."""
    return stamp[11:19]


def since(stamp: str, now: str) -> float:
    """Seconds from one stamp to the other."""
    return (datetime.fromisoformat(now) - datetime.fromisoformat(stamp)).total_seconds()


class Trouble(msgspec.Struct, frozen=True):
    """Something that is wrong. `cases` names each of what it concerns, with the reason.

    It is severe where it keeps traffic from flowing as it should.
    """

    what: str
    advice: str
    cases: tuple[tuple[str, str], ...] = ()
    severe: bool = True


# --- settings ---------------------------------------------------------------------------------


def ranges(allowed: Iterable[Prefix] | None) -> tuple[str, ...] | None:
    """Source ranges as text; None when every source is allowed."""
    return None if allowed is None else tuple(map(str, allowed))


def settings(port: PortDetail) -> Iterator[str]:
    """What decides about the traffic of a service port, besides frontends and endpoints."""
    yield f"internalTrafficPolicy {port.internal_traffic_policy}"
    if port.external_traffic_policy:
        yield f"externalTrafficPolicy {port.external_traffic_policy}"
    if port.balance:
        yield f"balance {port.balance}"
    if port.affinity_seconds:
        yield f"session affinity {duration(port.affinity_seconds)}"
    if port.source_ranges is not None:
        allowed = " ".join(port.source_ranges)
        yield f"only from {allowed}" if allowed else "no source allowed"
    if port.health_check_port:
        yield f"health check port {port.health_check_port}"
    if port.healing:
        yield f"healing {port.healing.replace(',', ' ')} (by {port.healing_by})"
    if port.not_healed:
        yield f"healing: {port.not_healed}"


_FAILURES: Final = {"refused": "refused", "unanswered": "not answered", "gone": "reset"}


def fast_path(path: FastPathStatus | None) -> str:
    """How the fast path is; "" where nobody asked for it."""
    if path is None or not path.wanted:
        return ""
    if not path.on:
        return f"off ({path.reason})"
    taken = plural(sum(path.connections.values()), "connection")
    after = plural(path.after_packets, "packet")
    return f"{taken}, each after {after}; {plural(len(path.devices), 'device')}"


def failures(endpoint: EndpointDetail) -> str:
    """How often an endpoint failed a connection; "" where it is not known to have."""
    found = (
        f"{count(endpoint.failures[reason])} {word}"
        for reason, word in _FAILURES.items()
        if reason in endpoint.failures
    )
    text = ", ".join(found)
    return f"connections that failed: {text}" if text else ""


# --- what is not there ------------------------------------------------------------------------


def unknown(
    what: str, wanted: Sequence[str], services: Collection[tuple[str, str]], path: str
) -> str:
    """That there is no `what` for NAMESPACE[/SERVICE], with similar names, and all at `path`.

    `services` are the namespaces and names of all that there are.
    """
    namespace, *names = wanted
    there = sorted(service for in_, service in services if in_ == namespace)
    elsewhere = sorted(in_ for in_, service in services if names[:1] == [service])
    lines = [f"no {what} for {'/'.join(wanted)}"]
    if elsewhere:
        lines.append(f"a service of this name is in: {_some(elsewhere)}")
    if there:
        lines.append(f"namespace {namespace} has: {_some(there)}")
    lines.append(
        f"{path} lists all; a Service that is headless, or of type ExternalName, has none"
    )
    return "".join(f"{printable(line)}\n" for line in lines)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
