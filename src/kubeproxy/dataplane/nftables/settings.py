"""How the operator set nftables mode up, and the program that follows from it."""

import msgspec

from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.program import AFFINITY_SIZE, masquerade_mark, program
from kubeproxy.table.node import Node


class NftablesSettings(msgspec.Struct, frozen=True):
    """The fields of the configuration that nftables mode reads."""

    masquerade_bit: int = 14
    endpoint_counters: bool = False
    affinity_size: int = AFFINITY_SIZE

    def program(self, node: Node) -> Program:
        """The program of a family of the node."""
        return program(
            node,
            masquerade_mark(self.masquerade_bit),
            endpoint_counters=self.endpoint_counters,
            affinity_size=self.affinity_size,
        )
