"""The running daemon as a whole -> `wire.Status`."""

import os
import time
from datetime import UTC, datetime

from kubeproxy.base.inet import Family
from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.serve.http.pace import unhurried
from kubeproxy.serve.metrics.process import usage
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.history import Past
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.ports import conflict


async def report(live: Live) -> wire.Status:
    """The daemon as a whole."""
    now, used, config = time.time(), usage(), live.config
    return wire.Status(
        version=KUBERNETES_VERSION,
        node=live.cluster.node_name,
        mode=config.mode,
        pid=os.getpid(),
        started=timestamp(live.started),
        now=timestamp(now),
        uptime_seconds=round(now - live.started, 3),
        cpu_seconds=used.cpu,
        memory_bytes=used.resident,
        source=live.source,
        config_file=live.config_file,
        health_address=config.healthz_bind_address,
        metrics_address=config.metrics_bind_address,
        healthy=live.health.healthy,
        node_eligible=live.eligible(),
        counts_connections=live.traffic is not None,
        gaps=tuple(wire.Gap(gap.what, gap.reason, gap.seconds) for gap in live.gaps()),
        ignored=tuple(
            wire.Ignored(f"{each.kind.value} {each.key}", each.text) for each in live.ignored()
        ),
        remains=tuple(live.remains()),
        families=tuple([await _family(live, family) for family in live.syncs]),
    )


async def _family(live: Live, family: Family) -> wire.FamilyStatus:
    sync, history = live.syncs[family], live.history.of(family)
    entries = tuple(sync.builder.table.entries.values())
    frontends = endpoints = 0
    async for entry in unhurried(entries):
        frontends += len(entry.frontends)
        endpoints += entry.endpoints
    latest = tuple(map(_sync, history.latest))
    return wire.FamilyStatus(
        ip_family=family.value,
        healthy=live.health.keeps_up(family),
        services=len(sync.builder.services()),
        service_ports=len(entries),
        frontends=frontends,
        endpoints=endpoints,
        syncs=history.count,
        failures=history.failures,
        last_sync=latest[-1] if latest else None,
        last_full_sync=_sync(history.last_full) if history.last_full else None,
        waiting_seconds=live.health.waiting(family),
        not_programmed=tuple(
            wire.NotProgrammed(str(name), name.protocol.name, reason)
            for name, reason in sync.failed.items()
        ),
        conflicts=tuple(map(conflict, sync.builder.conflicts())),
        history=latest,
        failure=sync.failure,
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


def timestamp(seconds: float) -> str:
    """A time of the wall clock in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
