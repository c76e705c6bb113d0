"""What should happen to packets on kestrel: the meaning of the documents under the daemon's flags.

Built as the daemon builds it, from the same flags and documents, but all at once and from
scratch. The meaning itself is `decide`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family, family_of
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine.node import node_view, with_bind_address
from kubeproxy.table.build import Builder
from kubeproxy.table.decide import Packet, Verdict, decide
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from lab.documents import complete
from world import NODE_NAME, Mode

Addresses = Mapping[Family, tuple[str, ...]]


class Expectation(msgspec.Struct, frozen=True):
    """The tables and this node, by family; `held` is what its devices have, of services too."""

    mode: Mode
    tables: Mapping[Family, Table]
    nodes: Mapping[Family, NodeView]
    held: Addresses

    def node(self, family: Family) -> NodeView:
        """This node as the kernel has it: in ipvs mode, with the addresses of services."""
        return msgspec.structs.replace(self.nodes[family], addresses=self.held[family])

    def verdict(self, packet: Packet) -> Verdict:
        """What should happen to the packet."""
        family = family_of(packet.destination)
        return decide(packet, self.tables[family], self.nodes[family], self.mode.quirks)


def expectation(
    documents: Iterable[Mapping[str, object]],
    flags: Sequence[str],
    addresses: Addresses,
    held: Addresses | None = None,
) -> Expectation:
    """What the documents mean on a node with these addresses; it may hold more than its own."""
    loaded = load(parse_flags(flags), MODES)
    allowed = loaded.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS)
    cluster = Cluster(NODE_NAME, allow_external_ips=allowed)
    for document in map(complete, documents):
        kind = Kind(document["kind"])
        cluster.upsert(kind, convert(kind, document))
    own = with_bind_address(cluster.node, loaded.config.bind_address)
    tables, nodes = {}, {}
    for family in Family:
        nodes[family] = replace(
            node_view(loaded.config, loaded.gates, family, own),
            name=NODE_NAME,
            addresses=addresses[family],
            service_cidrs=cluster.service_cidrs(family),
        )
        builder = Builder(family)
        builder.update(cluster, (), nodes[family])
        tables[family] = builder.table
    return Expectation(Mode(loaded.config.mode), tables, nodes, held or addresses)
