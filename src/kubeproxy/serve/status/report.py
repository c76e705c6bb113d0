"""The daemon as a whole -> `wire.DaemonStatus`."""

from datetime import UTC, datetime
from typing import NamedTuple

from kubeproxy.base.inet import join
from kubeproxy.base.printable import printable
from kubeproxy.base.steps import Steps
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.repairs import OfLate
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.explain.words import left_out
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.history import Past
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.table.claims import Conflict


class ProcessUsage(NamedTuple):
    """What this process is and uses: seconds of CPU time, bytes of memory, the commit it is of."""

    pid: int
    cpu_seconds: float
    memory_bytes: int
    commit: str = ""


def report(state: State, usage: ProcessUsage) -> Steps[wire.DaemonStatus]:
    """The daemon as a whole."""
    families: tuple[wire.FamilyStatus, ...] = ()
    for family in state.families.values():
        families += ((yield from _family(family, state)),)
    waits_for, waits_seconds = state.surroundings.waiting or ("", 0.0)
    return wire.DaemonStatus(
        version=VERSION,
        commit=usage.commit,
        kubernetes_version=KUBERNETES_VERSION,
        node=state.cluster.node_name,
        mode=state.config.mode,
        pid=usage.pid,
        started=timestamp(state.started),
        now=timestamp(state.now),
        uptime_seconds=round(state.now - state.started, 3),
        cpu_seconds=usage.cpu_seconds,
        memory_bytes=usage.memory_bytes,
        source=state.source,
        config_file=state.config_file,
        health_address=state.config.healthz_bind_address,
        metrics_address=state.config.metrics_bind_address,
        healthy=state.healthy,
        node_eligible=state.eligible,
        counts_connections=state.counts_connections,
        gaps=tuple(wire.SourceGap(gap.what, gap.reason, gap.seconds) for gap in state.gaps),
        ignored=tuple(
            wire.Ignored(f"{each.kind.value} {each.key}", each.text) for each in state.ignored
        ),
        remains=tuple(state.remains),
        fast_path=_fast_path(state),
        families=families,
        conntrack=_conntrack(state.surroundings),
        node_found=not state.surroundings.no_node,
        source_silent_seconds=state.surroundings.silence,
        waits_for=waits_for,
        waits_seconds=round(waits_seconds, 3),
    )


def _conntrack(found: Surroundings) -> wire.ConntrackState | None:
    use, lost = found.conntrack, found.lost
    if use is None:
        return None
    return wire.ConntrackState(use.entries, use.limit, lost.insert_failures, lost.drops)


def _fast_path(state: State) -> wire.FastPathStatus | None:
    path = state.fast_path
    if path is None:
        return None
    return wire.FastPathStatus(
        wanted=path.wanted,
        on=path.on,
        reason=path.reason,
        why_not=path.why_not,
        after_packets=path.packets,
        devices=path.devices,
        left_out=path.left_out,
        connections={family.value: count for family, count in state.on_fast_path.items()},
    )


def _family(state: FamilyState, daemon: State) -> Steps[wire.FamilyStatus]:
    history, record = state.history, daemon.record
    entries = tuple(state.builder.table.entries.values())
    frontends = endpoints = 0
    unserved = []
    for entry in entries:
        frontends += len(entry.frontends)
        endpoints += entry.endpoints
        if not entry.has_endpoints:
            unserved.append(str(entry.name))
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
        left_out=tuple(_left_out(each) for found in state.left_out.values() for each in found),
        at_ejection_limit=tuple(
            str(name)
            for family, name in (record.at_limit() if record else ())
            if family is state.family
        ),
        failed_connections=record.recent.of_late(state.family, daemon.now) if record else None,
        forwarded=state.family not in daemon.surroundings.not_forwarded,
        missing_address=daemon.surroundings.missing_addresses.get(state.family, ""),
        without_endpoint=tuple(sorted(unserved)),
        foreign_changes=_foreign(state.foreign_changes),
    )


def _foreign(found: OfLate) -> wire.ForeignChanges:
    name, pid = found.writer or ("", 0)
    ago = None if found.ago is None else round(found.ago, 3)
    return wire.ForeignChanges(
        found.total, found.count, round(found.seconds, 3), ago, printable(name), pid
    )


def _left_out(ejection: Ejection) -> wire.LeftOut:
    return wire.LeftOut(
        service_port=str(ejection.name),
        protocol=ejection.name.protocol.name,
        endpoint=join(*ejection.endpoint),
        until=timestamp(ejection.until),
        reason=ejection.reason.value,
        failures=ejection.failures,
        clients=ejection.clients,
        times=ejection.times,
        why=left_out(ejection),
    )


def _sync(past: Past) -> wire.Sync:
    return wire.Sync(
        timestamp(past.at),
        round(past.seconds, 6),
        past.full,
        past.outcome.value,
        past.added,
        past.changed,
        past.removed,
        past.written,
    )


def conflict(found: Conflict) -> wire.AddressConflict:
    """An address that two service ports claim."""
    return wire.AddressConflict(str(found.key), str(found.winner), str(found.loser))


def timestamp(seconds: float) -> str:
    """A time of the wall clock in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
