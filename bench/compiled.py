"""A generated cluster as model and table, and changes of it: what the benches of stages share."""

import time
from collections.abc import Iterable, Iterator
from itertools import count

from bench.clusters import NODE, NODE_ADDRESS, Size, endpoint_slice, objects
from kubeproxy.base.inet import Family, Prefix
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import Update
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import NO_CHANGES, Changes
from kubeproxy.table.node import NodeView, PodCIDR

THIS_NODE = NodeView(
    Family.IPV4,
    (NODE_ADDRESS,),
    PodCIDR(Prefix("10.128.0.0", 9)),
    node_port_ranges=(Prefix(NODE_ADDRESS, 32),),
    service_cidrs=(Prefix("10.96.0.0", 12),),
    name=NODE,
    ip=NODE_ADDRESS,
)


class Compiled:
    """A cluster, and the table of it on a node; by default, the generated one."""

    def __init__(
        self,
        size: Size,
        listed: Iterable[tuple[Kind, bytes]] | None = None,
        node: NodeView = THIS_NODE,
    ) -> None:
        self.size, self.node = size, node
        self.cluster, self.builder = Cluster(NODE), Builder(Family.IPV4)
        generated = objects(size) if listed is None else listed
        started = time.perf_counter()
        for kind, data in generated:
            self.cluster.upsert(kind, decode(kind, data))
        decoded = time.perf_counter()
        self.first = self.compile(())
        self.seconds = (decoded - started, time.perf_counter() - decoded)
        """To the model, and from there to the table."""

    def events(self) -> Iterator[bytes]:
        """Slices with one endpoint changed, of one service after the other, without end."""
        services, endpoints = self.size.services, self.size.endpoints
        return (endpoint_slice(each % services, endpoints, version=each) for each in count(1))

    def take(self, event: bytes) -> list[ObjectKey]:
        """Apply a slice; the services that it touches."""
        touched = self.cluster.upsert(Kind.ENDPOINT_SLICE, decode(Kind.ENDPOINT_SLICE, event))
        return [key for _, key in touched.services]

    def compile(self, services: Iterable[ObjectKey]) -> Changes:
        """Compile services again."""
        return self.builder.update(self.cluster, services, self.node)

    def everything(self, changes: Changes = NO_CHANGES) -> Update:
        """A full sync."""
        return Update(self.builder.table, self.node, changes, full=True)

    def change(self, event: bytes) -> Update:
        """A sync of what a slice changes."""
        changes = self.compile(self.take(event))
        return Update(self.builder.table, self.node, changes, full=False)
