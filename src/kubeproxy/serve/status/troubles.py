"""What is wrong with a daemon, the worst first, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.serve.status.surroundings import (
    cluster_troubles,
    conntrack_troubles,
    endpoint_troubles,
    family_troubles,
    foreign_troubles,
)
from kubeproxy.serve.status.wire import DaemonStatus, FamilyStatus, LeftOut, SourceGap
from kubeproxy.serve.status.words import Trouble, plural, span

PATIENCE: Final = 15.0
"""Seconds that a change may wait for its sync before that is a problem."""
_LOG: Final = "The daemon's log says why, and it is tried again by itself."


def troubles(status: DaemonStatus) -> list[Trouble]:
    """All that is wrong; what keeps traffic from flowing comes first."""
    found = [trouble for family in status.families for trouble in _of_family(family, status)]
    found += _of_daemon(status)
    found += [trouble for family in status.families for trouble in endpoint_troubles(family)]
    return sorted(found, key=lambda trouble: not trouble.severe)


def _of_family(family: FamilyStatus, status: DaemonStatus) -> Iterator[Trouble]:
    name = family.ip_family
    if family.last_sync is None:
        waits = f"until it knows the cluster from {status.source or 'its source'}"
        if status.waits_for:
            waits = f"for {status.waits_for}, for {span(status.waits_seconds)} now"
        yield Trouble(
            f"{name}: nothing is programmed yet by this process",
            f"It waits {waits}. Rules that an earlier process left stay in force.",
        )
    elif family.last_sync.outcome == "failed":
        yield Trouble(
            f"{name}: the last sync failed",
            "It is tried again by itself; change what the reason names if it stays. What was"
            " programmed stays.",
            (("reason", family.failure or "the daemon's log says it"),),
        )
    if not family.healthy:
        yield Trouble(
            f"{name}: not healthy",
            f"Its syncs do not keep up, so that load balancers leave this node out. {_LOG}",
        )
    if family.waiting_seconds is not None and family.waiting_seconds > PATIENCE:
        yield Trouble(
            f"{name}: changes have waited {span(family.waiting_seconds)} to be programmed",
            "A sync takes longer than it should, or keeps failing: see the syncs below.",
            severe=False,
        )
    refused, conflicts = family.not_programmed, family.conflicts
    if refused:
        yield Trouble(
            f"{name}: the kernel does not have {plural(len(refused), 'service port')}",
            "Others are not affected. Each is tried again by itself; change what the reason names"
            " if it stays.",
            tuple((f"{each.service_port} {each.protocol}", each.reason) for each in refused),
        )
    if conflicts:
        claimed = plural(len(conflicts), "address is", "addresses are")
        yield Trouble(
            f"{name}: {claimed} claimed twice",
            "Give one of the two Services another address or node port.",
            tuple(
                (each.address, f"served by {each.served_by}, and not by {each.not_served}")
                for each in conflicts
            ),
            severe=False,
        )
    yield from family_troubles(family)
    yield from foreign_troubles(family)
    yield from _of_failing(family)


def _of_failing(family: FamilyStatus) -> Iterator[Trouble]:
    """Endpoints that fail: the Service has the problem, and the proxy works."""
    out, limited = family.left_out, family.at_ejection_limit
    if out:
        are = plural(len(out), "endpoint is", "endpoints are")
        yield Trouble(
            f"{family.ip_family}: {are} left out for a while",
            "They fail connections. Each is tried again by itself; look at its pod if it stays.",
            tuple((f"{each.service_port} {each.protocol}", _out(each)) for each in out),
            severe=False,
        )
    if limited:
        have = plural(len(limited), "service port has", "service ports have")
        yield Trouble(
            f"{family.ip_family}: {have} too many endpoints that fail",
            "No more of them are left out (maxEjectedPercent), so clients still get endpoints that"
            " fail: look at the pods.",
            tuple((name, "one more endpoint fails") for name in limited),
            severe=False,
        )


def _out(each: LeftOut) -> str:
    return f"{each.endpoint} is {each.why}"


def _of_daemon(status: DaemonStatus) -> Iterator[Trouble]:
    if status.remains:
        yield Trouble(
            "Rules of another mode remain in the kernel",
            "Packets may follow them to endpoints that are gone. Do what the reason says and start"
            " kube-proxy again, or restart the node.",
            tuple(("reason", reason) for reason in status.remains),
        )
    path = status.fast_path
    if path is not None and path.wanted and path.why_not:
        yield Trouble(
            "The fast path is off",
            "All packets meet the rules, which costs more and loses nothing. It is tried again at"
            " the next start, or by itself where the kernel refused its table.",
            (("reason", path.why_not),),
            severe=False,
        )
    if status.gaps:
        yield Trouble(
            f"Not all of {status.source or 'the source'} could be read: rules may be stale",
            "It is read again automatically; until then the last known state is used.",
            tuple((_gap(gap), gap.reason) for gap in status.gaps),
            severe=any((gap.seconds or 0.0) > PATIENCE for gap in status.gaps),
        )
    if status.ignored:
        yield Trouble(
            plural(len(status.ignored), "part of an object is ignored", "parts are ignored"),
            "The rest of each object is served. Correct the object unless that is intended.",
            tuple((each.object, each.reason) for each in status.ignored),
            severe=False,
        )
    yield from conntrack_troubles(status)
    yield from cluster_troubles(status)
    if not status.node_eligible and status.node_found:
        yield Trouble(
            f"Node {status.node} fails the health check of load balancers",
            "There is no Node of that name (--hostname-override names it), or it is being deleted,"
            " or has the taint ToBeDeletedByClusterAutoscaler. Nothing to do if that is intended."
            if any(family.last_sync for family in status.families)
            else "Its Node is not known yet.",
            severe=False,
        )


def _gap(gap: SourceGap) -> str:
    return gap.what if gap.seconds is None else f"{gap.what}, for {span(gap.seconds)}"
