"""What the kernel refused -> the service ports whose elements these are."""

from collections.abc import Sequence

from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.nftables.batch import element_at
from kubeproxy.dataplane.nftables.elements import entry_elements
from kubeproxy.dataplane.nftables.names import FIREWALL_SOURCES
from kubeproxy.dataplane.nftables.sources import list_number
from kubeproxy.dataplane.nftables.state import Step
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.node import NodeView


class Culprit(KernelError):
    """The kernel refused what a service port needs, or what several have in common."""

    def __init__(self, names: frozenset[ServicePortName], error: Refused) -> None:
        super().__init__(str(error))
        self.names = names


def culprits(
    error: Refused, messages: Sequence[bytes], next_: Step, node: NodeView
) -> frozenset[ServicePortName]:
    """The service ports whose element the kernel did not like, when it says so."""
    first = error.errors[0]
    if not 0 <= first.index < len(messages) or first.offset is None:
        return frozenset()
    element = element_at(messages[first.index], first.offset)
    if element is None:
        return frozenset()
    set_, body = element
    placed = [each for each in next_.placed.values() if each is not None]
    if set_ == FIREWALL_SOURCES:
        number = list_number(body)
        return frozenset(each.entry.name for each in placed if each.sources == number)
    for each in placed:
        elements = entry_elements(each, node, next_.numbers).get(set_, {})
        if any(head + tail == body for head, tail in elements.items()):
            return frozenset({each.entry.name})
    return frozenset()
