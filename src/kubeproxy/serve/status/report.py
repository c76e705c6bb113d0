"""The daemon as a whole -> `wire.Status`."""

from datetime import UTC, datetime

from kubeproxy.base.steps import Steps
from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.history import Past
from kubeproxy.serve.status.state import FamilyState, Process, State
from kubeproxy.table.claims import Conflict


def report(state: State, process: Process) -> Steps[wire.Status]:
    """The daemon as a whole."""
    families: tuple[wire.FamilyStatus, ...] = ()
    for family in state.families.values():
        families += ((yield from _family(family)),)
    return wire.Status(
        version=KUBERNETES_VERSION,
        node=state.cluster.node_name,
        mode=state.config.mode,
        pid=process.pid,
        started=timestamp(process.started),
        now=timestamp(state.now),
        uptime_seconds=round(state.now - process.started, 3),
        cpu_seconds=process.cpu_seconds,
        memory_bytes=process.memory_bytes,
        source=process.source,
        config_file=process.config_file,
        health_address=state.config.healthz_bind_address,
        metrics_address=state.config.metrics_bind_address,
        healthy=process.healthy,
        node_eligible=process.eligible,
        counts_connections=state.counts_connections,
        gaps=tuple(wire.Gap(gap.what, gap.reason, gap.seconds) for gap in process.gaps),
        ignored=tuple(
            wire.Ignored(f"{each.kind.value} {each.key}", each.text) for each in process.ignored
        ),
        remains=tuple(process.remains),
        families=families,
    )


def _family(state: FamilyState) -> Steps[wire.FamilyStatus]:
    history = state.history
    entries = tuple(state.builder.table.entries.values())
    frontends = endpoints = 0
    for entry in entries:
        frontends += len(entry.frontends)
        endpoints += entry.endpoints
        yield
    latest = tuple(map(_sync, history.latest))
    return wire.FamilyStatus(
        ip_family=state.family.value,
        healthy=state.healthy,
        services=len(state.builder.services()),
        service_ports=len(entries),
        frontends=frontends,
        endpoints=endpoints,
        syncs=history.count,
        failures=history.failures,
        last_sync=latest[-1] if latest else None,
        last_full_sync=_sync(history.last_full) if history.last_full else None,
        waiting_seconds=state.waiting,
        not_programmed=tuple(
            wire.NotProgrammed(str(name), name.protocol.name, reason)
            for name, reason in state.failed.items()
        ),
        conflicts=tuple(map(conflict, state.builder.conflicts())),
        history=latest,
        failure=state.failure,
    )


def _sync(past: Past) -> wire.Sync:
    return wire.Sync(
        ended=timestamp(past.at),
        seconds=round(past.seconds, 6),
        full=past.full,
        outcome=past.outcome.value,
        added=past.added,
        changed=past.changed,
        removed=past.removed,
        written=past.written,
    )


def conflict(found: Conflict) -> wire.Conflict:
    """An address that two service ports claim."""
    return wire.Conflict(str(found.key), str(found.winner), str(found.loser))


def timestamp(seconds: float) -> str:
    """A time of the wall clock in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
