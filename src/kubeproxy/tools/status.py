"""`kube-proxy status`: is the running proxy well, and what does it do."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.config.flagset import HELP, parse, refuse_positionals, usage
from kubeproxy.serve.status.troubles import Trouble, troubles
from kubeproxy.serve.status.wire import DaemonStatus, FamilyStatus, Sync
from kubeproxy.serve.status.words import count, elapsed, since, size, span
from kubeproxy.tools import client
from kubeproxy.tools.terminal import (
    OUTPUT,
    Column,
    Line,
    Span,
    Style,
    line,
    look_of,
    prose,
    show,
    show_json,
    table,
    wants_json,
)

UNWELL: Final = 1
"""The exit code when the daemon runs and something is wrong."""
_MOST: Final = 20
_FLAGS: Final = (OUTPUT, *client.FLAGS, HELP)
_AFTERWARDS: Final = """
Exit codes: 0 when the proxy is well, 1 when it runs and is not (the reasons stand at the top) or
could not be asked, 3 when no proxy answers.
"""


def usage_text() -> str:
    """How to call it."""
    return usage("kube-proxy status", _FLAGS) + _AFTERWARDS


def main(arguments: Sequence[str]) -> int:
    """Show how the daemon is."""
    parsed = parse(_FLAGS, arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy status", parsed)
    as_json = wants_json(parsed)
    status = client.Client(client.ways(parsed)).get("/status", DaemonStatus)
    if as_json:
        show_json(status)
    else:
        look = look_of(sys.stdout, os.environ)
        show(screen(status, look.width), look)
    return UNWELL if is_unwell(status) else 0


def is_unwell(status: DaemonStatus) -> bool:
    """Whether something keeps traffic from flowing as it should."""
    return any(trouble.severe for trouble in troubles(status))


# --- the screen -------------------------------------------------------------------------------

_COUNTS: Final = (
    Column("FAMILY"),
    Column("HEALTH"),
    Column("SERVICES", right=True),
    Column("PORTS", right=True),
    Column("FRONTENDS", right=True),
    Column("ENDPOINTS", right=True),
    Column("SYNCS", right=True),
    Column("FAILED", right=True),
)
_SYNCS: Final = (
    Column("FAMILY"),
    Column("SYNC"),
    Column("ENDED", right=True),
    Column("TOOK", right=True),
    Column("OUTCOME"),
    Column("SERVICE PORTS"),
    Column("WRITTEN", right=True),
)


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
        *table(_SYNCS, (row for each in families for row in _syncs(each, status)), width),
    ]


def _verdict(status: DaemonStatus, width: int | None) -> Iterator[Line]:
    where = f" on node {status.node}: {status.mode} mode, up {span(status.uptime_seconds)}"
    if is_unwell(status):
        yield line(Span("kube-proxy is NOT well", Style.RED), where)
    else:
        yield line(Span("kube-proxy is well", Style.GREEN), where)
    for trouble in troubles(status):
        yield from _trouble(trouble, width)


def _trouble(trouble: Trouble, width: int | None) -> Iterator[Line]:
    style = Style.RED if trouble.severe else Style.YELLOW
    yield from prose(trouble.what, width, "  ", style)
    for name, reason in trouble.cases[:_MOST]:
        yield from prose(f"{name}: {reason}", width, "    ")
    if len(trouble.cases) > _MOST:
        yield line(f"    and {len(trouble.cases) - _MOST} more (-o json has all)")
    yield from prose(trouble.advice, width, "    ", Style.DIM)


def _facts(status: DaemonStatus) -> Iterator[Line]:
    cores = status.cpu_seconds / max(status.uptime_seconds, 1.0)
    facts = (
        ("version", status.version),
        ("process", f"{status.pid}, since {status.started}"),
        ("memory", size(status.memory_bytes)),
        ("CPU", f"{elapsed(status.cpu_seconds)}, {100 * cores:.1f} % of a core since the start"),
        ("source", status.source),
        ("config", status.config_file),
        ("health", status.health_address),
        ("metrics", status.metrics_address),
    )
    for label, text in facts:
        if text:
            yield line(Span(f"{label:<9}", Style.DIM), text)


def _counts(family: FamilyStatus) -> Line:
    healthy = Span("healthy", Style.GREEN) if family.healthy else Span("UNHEALTHY", Style.RED)
    return line(
        family.ip_family,
        healthy,
        count(family.services),
        count(family.service_ports),
        count(family.frontends),
        count(family.endpoints),
        count(family.syncs),
        Span(count(family.failures), Style.RED if family.failures else Style.PLAIN),
    )


def _syncs(family: FamilyStatus, status: DaemonStatus) -> Iterator[Line]:
    last, full = family.last_sync, family.last_full_sync
    if last is None:
        yield line(family.ip_family, "last", "never", "", "", "", "")
        return
    if last == full:
        yield _sync(family, "last, full", last, status)
        return
    yield _sync(family, "last", last, status)
    if full is not None:
        yield _sync(family, "last full", full, status)


_OUTCOME_STYLE: Final = {"failed": Style.RED, "partly": Style.YELLOW}


def _sync(family: FamilyStatus, which: str, sync: Sync, status: DaemonStatus) -> Line:
    changed = (
        f"{count(number)} {word}"
        for number, word in (
            (sync.added, "added"),
            (sync.changed, "changed"),
            (sync.removed, "removed"),
        )
        if number
    )
    return line(
        family.ip_family,
        which,
        f"{span(since(sync.ended, status.now))} ago",
        elapsed(sync.seconds),
        Span(sync.outcome, _OUTCOME_STYLE.get(sync.outcome, Style.PLAIN)),
        ", ".join(changed) or "as before",
        count(sync.written),
    )
