"""What happens to packets, and why, as the tables are now."""

from collections.abc import Sequence
from typing import Final

from kubeproxy.base.errors import FieldError
from kubeproxy.base.steps import Steps
from kubeproxy.engine.node import node_ips, with_bind_address
from kubeproxy.explain.answers import Asked, View, explained, meant
from kubeproxy.explain.question import Question
from kubeproxy.explain.words import Explanation
from kubeproxy.serve.status.state import State
from kubeproxy.serve.status.wire import FieldProblem

NOT_YET: Final = "nothing is programmed yet: ask again when the first sync is over"
MOST: Final = 200
"""Packets that are explained at once: the answer is kept in memory until it is complete."""


def is_ready(state: State) -> bool:
    """Whether any family is programmed, so that there is something to explain."""
    return any(each.node is not None for each in state.families.values())


def problem_of(error: FieldError, state: State) -> FieldProblem:
    """Why a question has no answer.

    The reason may be that a family has had no successful sync yet.
    """
    missing = [family.value for family, each in state.families.items() if each.node is None]
    about = f" (nothing of {missing[0]} is programmed yet)" if missing else ""
    return FieldProblem(error.reason + about, error.field, error.value)


def explanations(
    state: State, source: str, destinations: Sequence[str], interface: str = ""
) -> Steps[list[Explanation]]:
    """What happens to packets; a Service may have thousands of ports, and endpoints as many."""
    synced = {
        family: (each, each.node)
        for family, each in state.families.items()
        if each.node is not None
    }
    view = View(
        cluster=state.cluster,
        mode=state.mode.name,
        quirks=state.mode.quirks,
        ips=node_ips(with_bind_address(state.cluster.node, state.config.bind_address)),
        tables={family: each.builder.table for family, (each, _) in synced.items()},
        nodes={family: node for family, (_, node) in synced.items()},
        conflicts={family: each.builder.conflicts() for family, (each, _) in synced.items()},
        pods=None,
    )
    packets: list[Question] = []
    for destination in destinations:
        packets += meant(Asked(source, (destination,), interface), view)
        if len(packets) > MOST:
            reason = f"that makes {len(packets):,} packets, and no more than {MOST} are explained"
            raise FieldError("to", destination, f"{reason} at once; name a port")
        yield
    found = []
    for packet in packets:
        found.append(explained(packet, view))
        yield
    return found
