"""What the proxy does, in the log: objects at -v=5, syncs and their service ports at -v=4."""

from kubeproxy.base import klog
from kubeproxy.base.inet import join
from kubeproxy.engine.observer import (
    FlowsCleaned,
    ObjectReceived,
    Observation,
    SyncEnded,
    SyncStarted,
)
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry


def log_activity(observation: Observation) -> None:
    """Log an observation, where the verbosity asks for it."""
    match observation:
        case ObjectReceived(kind, key, families, gone) if klog.enabled(5):
            klog.info(
                "Object is gone" if gone else "Object received",
                v=5,
                kind=kind.value,
                object=key,
                ipFamilies=[family.value for family in families],
            )
        case SyncStarted(family):
            klog.info("Sync started", v=4, ipFamily=family.value)
        case SyncEnded(family, outcome, full, seconds, changes, report):
            if klog.enabled(4):
                _log_ports(family.value, changes)
            klog.info(
                "Sync ended",
                v=4,
                ipFamily=family.value,
                outcome=outcome.value,
                full=full,
                seconds=round(seconds, 6),
                written=report.written if report else 0,
            )
        case FlowsCleaned(family, seconds, deleted):
            klog.info(
                "Looked for stale UDP flows",
                v=4,
                ipFamily=family.value,
                seconds=round(seconds, 6),
                deleted=deleted,
            )
        case _:
            pass


def _log_ports(family: str, changes: Changes) -> None:
    for entry in changes.added:
        _log_port("Adding service port", family, entry)
    for _, entry in changes.changed:
        _log_port("Changing service port", family, entry)
    for entry in changes.removed:
        _log_port("Removing service port", family, entry)


def _log_port(message: str, family: str, entry: Entry) -> None:
    klog.info(
        message,
        v=4,
        ipFamily=family,
        servicePort=str(entry.name),
        protocol=entry.protocol.name,
        frontends=[join(each.address or "*", each.port) for each in entry.frontends],
        endpoints=entry.endpoints,
    )
