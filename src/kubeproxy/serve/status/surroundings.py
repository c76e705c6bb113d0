"""What is wrong with what packets need besides rules: tracking, forwarding, this node."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.base.conntracktable import ConntrackUse, Level
from kubeproxy.serve.status.wire import ConntrackState, DaemonStatus, FamilyStatus
from kubeproxy.serve.status.words import Trouble, count, plural, span

SILENCE: Final = 600.0
"""Seconds: an API server sends a bookmark every minute, and ends each watch within ten."""
FIGHT: Final = 5
"""So many changes of others within a minute are no accident."""
_PROXIES: Final = frozenset({"kube-proxy"})
_FORWARDING: Final = {"IPv4": "net.ipv4.ip_forward", "IPv6": "net.ipv6.conf.all.forwarding"}


def conntrack_troubles(status: DaemonStatus) -> Iterator[Trouble]:
    """A table of connections that is full, or that loses some."""
    found = status.conntrack
    if found is None:
        return
    use = ConntrackUse(found.entries, found.limit)
    if use.level is not Level.ROOM:
        full = use.level is Level.FULL
        yield Trouble(
            f"Connection tracking is {'full' if full else f'filled to {fill_text(found)}'}",
            "Packets of new connections are dropped when it is full. Raise conntrack.maxPerCore or"
            " conntrack.min (sysctl net.netfilter.nf_conntrack_max), or find who opens so many:"
            " `conntrack -L` lists them.",
            (("connections", f"{count(found.entries)} of {count(found.limit)}"),),
            severe=full,
        )
    losses = (
        ("packets dropped", found.drops_of_late),
        ("connections not added", found.insert_failures_of_late),
    )
    if cases := tuple((what, f"{count(n)} in the last minute") for what, n in losses if n):
        yield Trouble(
            "Connection tracking loses packets of new connections",
            "The table is full, or packets of one flow race each other, as DNS requests of one"
            " socket do. `conntrack -S` counts them.",
            cases,
            severe=False,
        )


def fill_text(state: ConntrackState) -> str:
    """How full the table is, never rounded up to 100 %."""
    return f"{100 * state.entries // state.limit if state.limit else 0} %"


def cluster_troubles(status: DaemonStatus) -> Iterator[Trouble]:
    """What the API server does not say: anything at all, or which Node is ours."""
    if not status.node_found:
        yield Trouble(
            f"There is no Node {status.node}",
            "So no endpoint counts as one of this node, and traffic policy Local finds none here."
            " Name the Node with --hostname-override (hostnameOverride) if it has another name.",
        )
    silent = status.source_silent_seconds
    if silent is not None and silent > SILENCE:
        yield Trouble(
            f"Nothing has come from {status.source} for {span(silent)}: rules may be stale",
            "A server that is well sends something every minute. Look at the server, at proxies"
            " before it, and at the log; a restart of kube-proxy connects again.",
        )


def family_troubles(family: FamilyStatus) -> Iterator[Trouble]:
    """What keeps packets of a family from this node or its endpoints."""
    name = family.ip_family
    if not family.forwarded:
        yield Trouble(
            f"{name}: the kernel does not forward packets",
            "Pods of this node, and clients of its node ports, reach no endpoint. Run `sysctl -w"
            f" {_FORWARDING[name]}=1`, and make it last in /etc/sysctl.d.",
        )
    if family.missing_address:
        yield Trouble(
            f"{name}: no interface has this node's address {family.missing_address}",
            "Node ports that are served on the primary address (nodePortAddresses: primary) reach"
            " nobody. Correct the Node's addresses (--node-ip of the kubelet), or ignore it where"
            " a router translates that address.",
            severe=False,
        )


def foreign_troubles(family: FamilyStatus) -> Iterator[Trouble]:
    """Others that change the rules: now and then, or again and again."""
    found, name = family.foreign_changes, family.ip_family
    if not found.of_late:
        return
    again = found.of_late >= FIGHT
    cases = (("repairs", foreign_text(family)),)
    if not again:
        yield Trouble(
            f"{name}: another program changed the rules",
            "They were repaired. Nothing but kube-proxy should write its rules.",
            cases,
            severe=False,
        )
    elif found.program in _PROXIES:
        yield Trouble(
            f"{name}: two proxies fight over the rules of this node",
            "Each undoes what the other does. End one of them: look for a second DaemonSet, and"
            " for a kube-proxy that the host runs itself.",
            cases,
        )
    else:
        yield Trouble(
            f"{name}: another program changes the rules again and again",
            "End it: while both write, packets meet incomplete rules. If it is a program"
            " that proxies run, another kube-proxy is on this node.",
            cases,
        )


def foreign_text(family: FamilyStatus) -> str:
    """How many changes of others were repaired of late, and who made the last one."""
    found = family.foreign_changes
    by = f"{found.program} (pid {found.pid})" if found.program else "an unknown program"
    return f"{count(found.of_late)} in {span(found.seconds)}, last by {by}"


def endpoint_troubles(family: FamilyStatus) -> Iterator[Trouble]:
    """Service ports that nobody serves: their clients are refused, whatever the proxy does."""
    if unserved := family.without_endpoint:
        have = plural(len(unserved), "service port has", "service ports have")
        yield Trouble(
            f"{family.ip_family}: {have} no endpoint that can serve",
            "Clients are refused. Look at the pods if that is not intended.",
            tuple((name, "no endpoint can serve") for name in unserved),
            severe=False,
        )
