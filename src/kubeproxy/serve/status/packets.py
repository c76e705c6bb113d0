"""What happens to packets, and why, as the tables are now."""

from collections.abc import Sequence
from typing import Final

from kubeproxy.base.errors import FieldError
from kubeproxy.base.steps import Steps
from kubeproxy.engine.node import node_ips, with_bind_address
from kubeproxy.explain.answers import Asked, View, explained, meant
from kubeproxy.explain.words import Explanation
from kubeproxy.serve.status.state import State
from kubeproxy.serve.status.wire import FieldProblem

NOT_YET: Final = FieldProblem("nothing is programmed yet: ask again when the first sync is over")
MOST: Final = 200
"""Packets that are explained at once: the answer is kept in memory until it is complete."""


def explanations(
    state: State, source: str, destinations: Sequence[str], interface: str = ""
) -> Steps[list[Explanation] | FieldProblem]:
    """What happens to packets, or why that cannot be said.

    A Service may have thousands of ports, and endpoints as many.
    """
    synced = {family: each for family, each in state.families.items() if each.node is not None}
    if not synced:
        return NOT_YET
    view = View(
        cluster=state.cluster,
        mode=state.mode.name,
        quirks=state.mode.quirks,
        ips=node_ips(with_bind_address(state.cluster.node, state.config.bind_address)),
        tables={family: each.builder.table for family, each in synced.items()},
        nodes={family: each.node for family, each in synced.items() if each.node is not None},
        conflicts={family: each.builder.conflicts() for family, each in synced.items()},
        pods=None,
        left_out={family: each.left_out for family, each in synced.items()},
    )
    found = []
    try:
        for destination in destinations:
            found += meant(Asked(source, (destination,), interface), view)
            if len(found) > MOST:
                return FieldProblem(
                    f"that makes {len(found):,} packets, and no more than {MOST} are explained at"
                    " once; name a port",
                    "to",
                    destination,
                )
            yield
    except FieldError as error:
        missing = [family.value for family in state.families if family not in synced]
        about = f" (nothing of {missing[0]} is programmed yet)" if missing else ""
        return FieldProblem(error.reason + about, error.field, error.value)
    answers = []
    for packet in found:
        answers.append(explained(packet, view))
        yield
    return answers
