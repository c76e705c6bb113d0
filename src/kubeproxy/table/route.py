"""What one class of traffic gets from one kind of frontend, on this node and in this mode."""

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.table.entries import Backend, Entry, FrontendKind
from kubeproxy.table.policy import Masquerading, Refusal, Scope, Source, Treatment, Why
from kubeproxy.table.quirks import Quirks


class Route(msgspec.Struct, frozen=True):
    """A treatment, with the node's settings and the mode's quirks taken into account.

    `refusal` is None when there are backends.
    """

    scope: Scope
    backends: tuple[Backend, ...]
    masquerade: bool
    why: Why
    refusal: Refusal | None


def route(
    entry: Entry, kind: FrontendKind, source: Source, masquerading: Masquerading, quirks: Quirks
) -> Route:
    """The route of a class of traffic through a kind of frontend.

    `masquerading` are the node's settings for cluster IPs.
    """
    policy = entry.policy(kind)
    treatment = policy.outside if quirks.one_list else policy.treatment(source)
    scope = scope_of(entry, treatment, quirks)
    rewritten, why = treatment.masquerade, treatment.why
    if why is None:
        rewritten, why = _cluster_ip(source, masquerading)
    if quirks.relays:
        rewritten, why = True, Why.RELAYED
    refusal = entry.refusal(scope)
    if refusal is not None and quirks.always_rejects:
        refusal = Refusal.REJECT
    return Route(scope, entry.backends(scope), rewritten, why, refusal)


def healing_of(entry: Entry, kind: FrontendKind) -> Healing:
    """What is done about endpoints that fail: connections are retried where all have a choice."""
    lists = map(entry.backends, entry.policy(kind).scopes)
    if entry.serves(kind) and all(len(backends) != 1 for backends in lists):
        return entry.healing
    return entry.healing & Healing.RESET_GONE


def scope_of(entry: Entry, treatment: Treatment, quirks: Quirks) -> Scope:
    """The endpoints that a treatment means, in this mode."""
    if quirks.uses_remote and not entry.local and entry.cluster:
        return Scope.CLUSTER
    return treatment.scope


def _cluster_ip(source: Source, masquerading: Masquerading) -> tuple[bool, Why]:
    """Whether the source address is rewritten on the way to a cluster IP, and why."""
    if masquerading is Masquerading.ALWAYS:
        return True, Why.ALL
    if masquerading is Masquerading.NEVER:
        return False, Why.NO_DETECTOR
    return (False, Why.KEPT_FOR_POD) if source is Source.POD else (True, Why.OFF_CLUSTER)
