"""An entry as it is programmed: where its backends stand, and how its frontends choose one."""

from collections.abc import Iterable, Iterator

import msgspec

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.choices import (
    Choice,
    External,
    Pick,
    Remember,
    Split,
)
from kubeproxy.dataplane.nftables.language import DROP, Verdict, goto
from kubeproxy.dataplane.nftables.slots import Slots
from kubeproxy.table.entries import PRECEDENCE, Entry, Frontend, FrontendKind


class Placed(msgspec.Struct, frozen=True):
    """An entry, where its backends stand, and its number if it keeps its clients.

    `sources` is the number of its list of allowed sources, if it has one.
    """

    entry: Entry
    cluster: Slots
    local: Slots
    number: int = 0
    sources: int = 0


def choice_of(placed: Placed, frontend: Frontend) -> Choice | None:
    """How a frontend chooses; None when there is nobody for anybody."""
    entry = placed.entry
    node_port = frontend.kind is FrontendKind.NODE_PORT
    sticky = entry.affinity_seconds > 0
    everywhere = Pick(node_port, False, len(entry.cluster), sticky, entry.balance)
    here = Pick(node_port, True, len(entry.local), sticky, entry.balance)
    if frontend.kind is FrontendKind.CLUSTER_IP:
        pick = here if entry.internal_local else everywhere
        return pick if pick.count else None
    if not entry.cluster:
        return None
    if not entry.external_local:
        return External(everywhere)
    return Split(everywhere, here if here.count else None)


def nobody_of(placed: Placed, frontend: Frontend) -> Verdict | None:
    """What happens to those for whom there is nobody; None when there is somebody for all."""
    entry = placed.entry
    local = entry.external_local if frontend.kind.external else entry.internal_local
    if entry.local if local else entry.cluster:
        return None
    return DROP if entry.any else goto(names.REFUSE)


def remember_of(placed: Placed, frontend: Frontend) -> Remember | None:
    """How the choice is remembered; None without affinity."""
    entry = placed.entry
    if not entry.affinity_seconds:
        return None
    node_port = frontend.kind is FrontendKind.NODE_PORT
    local: bool | None = entry.internal_local
    if frontend.kind.external:
        local = None if entry.external_local else False
    return Remember(node_port, local, entry.affinity_seconds)


def served(entry: Entry) -> Iterable[Frontend]:
    """The frontends, one for each destination: the strictest, as `Entry.find` has it."""
    found: dict[tuple[str, int], Frontend] = {}
    for frontend in sorted(entry.frontends, key=lambda each: PRECEDENCE[each.kind]):
        found.setdefault((frontend.address, frontend.port), frontend)
    return found.values()


def choices(placed: Placed) -> Iterator[Choice]:
    """The choices that an entry's frontends lead to."""
    for frontend in served(placed.entry):
        choice = choice_of(placed, frontend)
        if choice is not None:
            yield choice
            remember = remember_of(placed, frontend)
            if remember is not None:
                yield remember


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
        case Split(local=Pick()):
            return [(False, placed.cluster), (True, placed.local)]
        case External() | Split():
            return [(False, placed.cluster)]
        case _:
            return []
