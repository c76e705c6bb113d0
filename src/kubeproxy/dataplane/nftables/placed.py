"""An entry as it is programmed: the places of its backends, and how its frontends choose one.

A list of backends has n places, and all are taken: a packet draws one of n numbers. When a backend
leaves, the last one moves into its place and all others stay, so that one change is a few elements
however long the list is.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.choices import Choice, Pick, Remember, Split
from kubeproxy.table.entries import PRECEDENCE, Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.policy import Refusal, Scope, Treatment
from kubeproxy.table.route import healing_of

Slots = tuple[Backend, ...]


class Placed(msgspec.Struct, frozen=True):
    """An entry, the places of its backends, and its number if it has session affinity.

    `sources` is the number of its list of allowed sources, if it has one.
    """

    entry: Entry
    cluster: Slots
    local: Slots
    number: int = 0
    sources: int = 0


def choice_of(placed: Placed, frontend: Frontend) -> Choice | None:
    """How a frontend chooses; None when no source gets an endpoint."""
    entry = placed.entry
    policy = entry.policy(frontend.kind)
    outside = _way(entry, frontend, policy.outside)
    if policy.is_uniform:
        return outside
    pod, host = _way(entry, frontend, policy.pod), _way(entry, frontend, policy.host)
    return Split(pod, host, outside) if pod and host else outside


def _way(entry: Entry, frontend: Frontend, treatment: Treatment) -> Pick | None:
    """How one class of source chooses."""
    count = len(entry.backends(treatment.scope))
    if not count:
        return None
    node_port = frontend.kind is FrontendKind.NODE_PORT
    local = treatment.scope is Scope.LOCAL
    sticky = entry.affinity_seconds > 0
    return Pick(node_port, local, count, sticky, entry.balance, treatment.masquerade)


def refusal_of(placed: Placed, frontend: Frontend) -> Refusal | None:
    """What happens to packets that found no endpoint; None when all sources get one.

    Refusals come after choices, and no source gets less than clients outside: theirs count.
    """
    entry = placed.entry
    return entry.refusal(entry.policy(frontend.kind).outside.scope)


def remember_of(placed: Placed, frontend: Frontend) -> Remember | Split | None:
    """How the choice is remembered; None without affinity."""
    entry = placed.entry
    if not entry.affinity_seconds:
        return None
    node_port = frontend.kind is FrontendKind.NODE_PORT
    policy = entry.policy(frontend.kind)
    pod, host, outside = (
        Remember(node_port, treatment.scope is Scope.LOCAL, entry.affinity_seconds)
        for treatment in (policy.pod, policy.host, policy.outside)
    )
    return outside if policy.is_uniform else Split(pod, host, outside)


def healed(placed: Placed, frontend: Frontend) -> Healing:
    """What is done for connections to a frontend."""
    return healing_of(placed.entry, frontend.kind)


def served(entry: Entry) -> Iterable[Frontend]:
    """The frontends, one for each destination: the strictest, as in `Entry.find`."""
    if len(entry.frontends) == 1:
        return entry.frontends
    found: dict[tuple[str, int], Frontend] = {}
    for frontend in sorted(entry.frontends, key=lambda each: PRECEDENCE[each.kind]):
        found.setdefault((frontend.address, frontend.port), frontend)
    return found.values()


def ways(placed: Placed) -> Iterator[tuple[str, Frontend, Choice]]:
    """The choices that an entry's frontends lead to, and in which map."""
    for frontend in served(placed.entry):
        choice = choice_of(placed, frontend)
        if choice is None:
            continue
        node_port = frontend.kind is FrontendKind.NODE_PORT
        yield names.CHOICES[node_port], frontend, choice
        remember = remember_of(placed, frontend)
        if remember is not None:
            yield names.REMEMBERS[node_port], frontend, remember


def choices(placed: Placed) -> Iterator[Choice]:
    """The choices that an entry's frontends lead to."""
    return (choice for _, _, choice in ways(placed))


def lists(placed: Placed) -> dict[tuple[Frontend, bool], Slots]:
    """The lists that its frontends draw from; True is for those of this node's endpoints."""
    return {
        (frontend, local): slots
        for frontend in served(placed.entry)
        for local, slots in lists_of(placed, choice_of(placed, frontend))
    }


def lists_of(placed: Placed, choice: Choice | None) -> list[tuple[bool, Slots]]:
    """The lists that one choice draws from."""
    match choice:
        case Pick(local=local):
            return [(local, placed.local if local else placed.cluster)]
        case Split(pod=pod, host=host, outside=outside):
            ways = (*lists_of(placed, pod), *lists_of(placed, host), *lists_of(placed, outside))
            return list(dict(ways).items())
        case _:
            return []
