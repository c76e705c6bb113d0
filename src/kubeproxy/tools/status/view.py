"""How the running proxy is, as lines for people: what is wrong first."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.serve.status.surroundings import fill_text
from kubeproxy.serve.status.troubles import troubles
from kubeproxy.serve.status.wire import DaemonStatus, FamilyStatus, Sync
from kubeproxy.serve.status.words import (
    Trouble,
    count,
    elapsed,
    fast_path,
    plural,
    program,
    since,
    size,
    span,
)
from kubeproxy.tools.layout import Line, Span, Style, left, line, prose, right, table

_MOST: Final = 20
_COUNTS: Final = (
    *left("FAMILY", "HEALTH"),
    *right("SERVICES", "PORTS", "FRONTENDS", "ENDPOINTS", "SYNCS", "FAILED"),
)
_SYNCS: Final = (
    *left("FAMILY", "SYNC"),
    *right("ENDED", "TOOK"),
    *left("OUTCOME", "SERVICE PORTS"),
    *right("WRITTEN"),
)
_OUTCOME_STYLE: Final = {"failed": Style.RED, "partly": Style.YELLOW}


def is_unwell(status: DaemonStatus) -> bool:
    """Whether something keeps traffic from flowing as it should."""
    return any(trouble.severe for trouble in troubles(status))


def screen(status: DaemonStatus, width: int | None) -> list[Line]:
    """Everything, what is wrong first."""
    families = status.families
    return [
        *_verdict(status, width),
        line(),
        *_facts(status),
        line(),
        *table(_COUNTS, map(_counts, families), width),
        line(),
        *table(_SYNCS, (row for each in families for row in _syncs(each, status.now)), width),
    ]


def _verdict(status: DaemonStatus, width: int | None) -> Iterator[Line]:
    well = Span("kube-proxy is well", Style.GREEN)
    if is_unwell(status):
        well = Span("kube-proxy is NOT well", Style.RED)
    yield line(
        well, f" on node {status.node}: {status.mode} mode, up {span(status.uptime_seconds)}"
    )
    for trouble in troubles(status):
        yield from _trouble(trouble, width)


def _trouble(trouble: Trouble, width: int | None) -> Iterator[Line]:
    yield from prose(trouble.what, width, "  ", Style.RED if trouble.severe else Style.YELLOW)
    for name, reason in trouble.cases[:_MOST]:
        yield from prose(f"{name}: {reason}", width, "    ")
    if len(trouble.cases) > _MOST:
        yield line(f"    and {len(trouble.cases) - _MOST} more (-o json has all)")
    yield from prose(trouble.advice, width, "    ", Style.DIM)


def _facts(status: DaemonStatus) -> Iterator[Line]:
    cores = status.cpu_seconds / max(status.uptime_seconds, 1.0)
    facts = [
        ("version", program(status)),
        ("process", f"{status.pid}, since {status.started}"),
        ("memory", size(status.memory_bytes)),
        ("CPU", f"{elapsed(status.cpu_seconds)}, {100 * cores:.1f} % of a core since the start"),
        ("source", _source(status)),
        ("config", status.config_file),
        ("health", status.health_address),
        ("metrics", status.metrics_address),
        ("tracking", _tracking(status)),
    ]
    facts.append(("fast path", fast_path(status.fast_path)))
    for family in status.families:
        if family.failed_connections:
            failed = plural(family.failed_connections, "connection")
            facts.append(("failures", f"{family.ip_family}: {failed} in the last minute"))
        if family.foreign_changes.total:
            total = plural(family.foreign_changes.total, "change")
            facts.append(("repaired", f"{family.ip_family}: {total} by others since the start"))
    for label, text in facts:
        if text:
            yield line(Span(f"{label:<9}", Style.DIM), text)


def _source(status: DaemonStatus) -> str:
    silent = status.source_silent_seconds
    return status.source + (f", last heard {span(silent)} ago" if silent is not None else "")


def _tracking(status: DaemonStatus) -> str:
    state = status.conntrack
    if state is None:
        return ""
    entries = f"{count(state.entries)} of {count(state.limit)} connections"
    return f"{entries}, {fill_text(state)}"


def _counts(family: FamilyStatus) -> Line:
    healthy = Span("healthy", Style.GREEN) if family.healthy else Span("UNHEALTHY", Style.RED)
    failures = Span(count(family.failures), Style.RED if family.failures else Style.PLAIN)
    sizes = (family.services, family.service_ports, family.frontends, family.endpoints)
    return line(family.ip_family, healthy, *map(count, (*sizes, family.syncs)), failures)


def _syncs(family: FamilyStatus, now: str) -> Iterator[Line]:
    last, full = family.last_sync, family.last_full_sync
    if last is None:
        yield line(family.ip_family, "last", "never", "", "", "", "")
    elif last == full:
        yield _sync(family, "last, full", last, now)
    else:
        yield _sync(family, "last", last, now)
        if full is not None:
            yield _sync(family, "last full", full, now)


def _sync(family: FamilyStatus, which: str, sync: Sync, now: str) -> Line:
    numbers = {"added": sync.added, "changed": sync.changed, "removed": sync.removed}
    changed = (f"{count(number)} {word}" for word, number in numbers.items() if number)
    return line(
        family.ip_family,
        which,
        f"{span(since(sync.ended, now))} ago",
        elapsed(sync.seconds),
        Span(sync.outcome, _OUTCOME_STYLE.get(sync.outcome, Style.PLAIN)),
        ", ".join(changed) or "as before",
        count(sync.written),
    )
