"""The cluster as the daemon knows it, as lines of JSON, for another process: `/status/cluster`.

The first line has what concerns all Services: the node, the mode, the configuration. Then there is
a line for each Service, and one for each slice. The reader can say what a change of it would do.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeproxy.base.inet import Family, Prefix
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.status.state import State
from kubeproxy.serve.status.tablewire import UnreadableTable


class ClusterHead(msgspec.Struct, frozen=True):
    """The first line. `services` and `slices` are how many lines follow of each."""

    node_name: str
    allow_external_ips: bool
    node: NodeState | None
    service_cidrs: tuple[tuple[ObjectKey, tuple[Prefix, ...]], ...]
    mode: str
    config: KubeProxyConfiguration
    addresses: tuple[tuple[Family, tuple[str, ...]], ...]
    services: int
    slices: int


class ServiceLine(msgspec.Struct, frozen=True, tag="service"):
    """A Service, by its ports in each family."""

    key: ObjectKey
    ports: tuple[tuple[Family, tuple[ServicePort, ...]], ...]


class SliceLine(msgspec.Struct, frozen=True, tag="slice"):
    """A slice."""

    key: ObjectKey
    slice: Slice


class Known(msgspec.Struct, frozen=True):
    """What the daemon knows: the cluster, and how it is proxied on its node."""

    cluster: Cluster
    mode: str
    config: KubeProxyConfiguration
    addresses: dict[Family, tuple[str, ...]]


_HEAD: Final = msgspec.json.Decoder(ClusterHead)
_LINE: Final = msgspec.json.Decoder(ServiceLine | SliceLine)


def cluster_pieces(state: State) -> Iterator[bytes]:
    """The cluster, line by line: all of it is of one moment, that of the first piece.

    Until then it is kept as copies of dictionaries: thousands of new objects would call the
    garbage collector.
    """
    cluster = state.cluster
    ports = {family: dict(cluster.all_ports(family)) for family in Family}
    slices = dict(cluster.all_slices())
    keys = dict.fromkeys(key for of_family in ports.values() for key in of_family)
    head = ClusterHead(
        node_name=cluster.node_name,
        allow_external_ips=cluster.allow_external_ips,
        node=cluster.node,
        service_cidrs=tuple(cluster.all_service_cidrs().items()),
        mode=state.mode.name,
        config=state.config,
        addresses=tuple(
            (family, each.node.addresses) for family, each in state.families.items() if each.node
        ),
        services=len(keys),
        slices=len(slices),
    )
    encode = msgspec.json.Encoder().encode
    yield encode(head) + b"\n"
    for key in keys:
        found = tuple((family, of.get(key, ())) for family, of in ports.items())
        yield encode(ServiceLine(key, found)) + b"\n"
    for key, each in slices.items():
        yield encode(SliceLine(key, each)) + b"\n"


def read_cluster(data: bytes) -> Known:
    """The cluster, with the values that the daemon has."""
    first, _, rest = data.partition(b"\n")
    try:
        head = _HEAD.decode(first)
        lines = _LINE.decode_lines(rest)
    except msgspec.DecodeError as error:
        raise UnreadableTable(
            f"the daemon's cluster cannot be read, it may be of another version: {error}"
        ) from error
    if len(lines) != head.services + head.slices:
        wanted = head.services + head.slices
        raise UnreadableTable(
            f"the daemon's cluster broke off after {len(lines)} of {wanted} objects"
        )
    cluster = Cluster(head.node_name, allow_external_ips=head.allow_external_ips)
    cluster.set_node(ObjectKey("", head.node_name), head.node)
    for key, cidrs in head.service_cidrs:
        cluster.set_service_cidrs(key, cidrs)
    for line in lines:
        if isinstance(line, ServiceLine):
            cluster.set_ports(line.key, dict(line.ports))
        else:
            cluster.set_slice(line.key, line.slice)
    return Known(cluster, head.mode, head.config, dict(head.addresses))
