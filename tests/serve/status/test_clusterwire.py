"""A cluster on its way to another process is the same there."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.serve.status.clusterwire import Known, cluster_pieces, read_cluster
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.tablewire import UnreadableTable
from serve.status.living import Rig, programmed
from world import CART, Mode, endpoint_slice, everywhere

SHOP = (
    everywhere({"loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP"}),
    endpoint_slice("L1@z-east L2:unready R1%heron R2:draining"),
    endpoint_slice("L3", name="early")
    | {
        "metadata": {
            "namespace": "shop",
            "name": "early",
            "labels": {"kubernetes.io/service-name": "not-there-yet"},
        }
    },
)


def travelled(live: Live) -> Known:
    return read_cluster(b"".join(cluster_pieces(live.state())))


def values(cluster: Cluster) -> tuple[object, ...]:
    services = {
        (family, key): cluster.service_ports(family, key)
        for family in Family
        for key in cluster.services(family)
    }
    by_service = {each: cluster.slices(Family.IPV4, each) for each in (CART, EARLY)}
    cidrs = dict(cluster.all_service_cidrs())
    return services, dict(cluster.all_slices()), by_service, cidrs, cluster.node


EARLY = ObjectKey("shop", "not-there-yet")


async def test_the_cluster_arrives_as_it_left() -> None:
    rig = await programmed(*SHOP, mode=Mode.IPTABLES)
    cidr = {"metadata": {"name": "all"}, "spec": {"cidrs": ["10.112.0.0/16"]}}
    rig.cluster.upsert(Kind.SERVICE_CIDR, convert(Kind.SERVICE_CIDR, cidr))
    found = travelled(rig.live)
    assert values(found.cluster) == values(rig.cluster)
    assert found.cluster.node_name == "kestrel"
    assert found.cluster.allow_external_ips
    assert found.mode == "iptables"
    assert found.config == rig.live.state().config
    wanted = {family: sync.node.addresses for family, sync in rig.syncs.items() if sync.node}
    assert found.addresses == wanted


async def test_a_cluster_without_anything() -> None:
    assert values(travelled((await programmed()).live).cluster)[0] == {}


async def test_an_answer_that_broke_off_or_is_none() -> None:
    rig: Rig = await programmed(*SHOP)
    pieces = list(cluster_pieces(rig.live.state()))
    with pytest.raises(UnreadableTable, match="broke off after 2 of 3 objects"):
        read_cluster(b"".join(pieces[:-1]))
    with pytest.raises(UnreadableTable, match="may be of another version"):
        read_cluster(b"{}\n")
