"""One side of a plan: a cluster as one node proxies it, with one configuration."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.dataplane.mode import Mode
from kubeproxy.engine.node import known_addresses, node_view, with_bind_address
from kubeproxy.table.build import Builder
from kubeproxy.table.claims import Conflict
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView


class Setup(msgspec.Struct, frozen=True):
    """What a side depends on besides the cluster.

    `addresses` are those of the node's interfaces; None where they are not known, and those of
    its Node have to do.
    """

    config: Config
    gates: Gates
    mode: Mode
    addresses: Mapping[Family, tuple[str, ...]] | None = None


class Side(msgspec.Struct, frozen=True):
    """What the node would be told to do. Tables are not changed any more.

    `left_out` are Services that are not served, or not wholly, and why. `placeless` are the
    addresses of endpoints whose slices do not name a node.
    """

    config: Config
    mode: Mode
    tables: Mapping[Family, Table]
    nodes: Mapping[Family, NodeView]
    conflicts: Mapping[Family, Sequence[Conflict]]
    left_out: Mapping[ObjectKey, str] = {}
    placeless: frozenset[str] = frozenset()


def side(cluster: Cluster, setup: Setup) -> Side:
    """The cluster as it is now, compiled for the node."""
    tables: dict[Family, Table] = {}
    nodes: dict[Family, NodeView] = {}
    conflicts: dict[Family, list[Conflict]] = {}
    left_out: dict[ObjectKey, str] = {}
    own = with_bind_address(cluster.node, setup.config.bind_address)
    addresses = setup.addresses or known_addresses(own)
    for family in Family:
        nodes[family] = replace(
            node_view(setup.config, setup.gates, family, own),
            name=cluster.node_name,
            addresses=addresses.get(family, ()),
            service_cidrs=cluster.service_cidrs(family),
        )
        builder = Builder(family)
        builder.update(cluster, (), nodes[family])
        tables[family] = builder.table
        conflicts[family] = builder.conflicts()
        left_out |= builder.excess | builder.unfit
    placeless = frozenset(_placeless(cluster))
    return Side(setup.config, setup.mode, tables, nodes, conflicts, left_out, placeless)


def _placeless(cluster: Cluster) -> Iterable[str]:
    """The endpoints whose node no slice names: whether they are on this node is not known."""
    for family in Family:
        for service in cluster.services(family):
            for each in cluster.slices(family, service).values():
                yield from (found.address for found in each.endpoints if not found.node)
