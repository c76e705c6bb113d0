"""A change of entries -> the transaction that it takes. The state stays as it is."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubeproxy.dataplane.nftables.batch import batch_messages
from kubeproxy.dataplane.nftables.state import Programmed, Step, alone, step
from kubeproxy.dataplane.unfit import unfit
from kubeproxy.table.entries import Entry, ServicePortName
from kubeproxy.table.node import Node

MANY = 5000
"""So many elements are written down in some milliseconds."""


class Written(NamedTuple):
    """A change, written down; and the service ports of which that cannot be done, with why."""

    step: Step
    messages: list[bytes]
    left_out: dict[ServicePortName, str]


def are_many(entries: Iterable[Entry]) -> bool:
    """Whether the entries take long to write down: each frontend has a list of the backends."""
    return sum([len(e.frontends) * (1 + len(e.cluster) + len(e.local)) for e in entries]) > MANY


def write(
    state: Programmed, gone: Sequence[Entry], wanted: Sequence[Entry], node: Node
) -> Written:
    """Write down that entries go and others come."""
    left_out: dict[ServicePortName, str] = {}
    try:
        next_ = step(state, gone, wanted, node)
    except Exception:
        left_out = unfit(wanted, alone(state.program, node))
        if not left_out:
            raise
        fit = [entry for entry in wanted if entry.name not in left_out]
        next_ = step(state, gone, fit, node)
    return Written(next_, batch_messages(state.program, next_.batch), left_out)
