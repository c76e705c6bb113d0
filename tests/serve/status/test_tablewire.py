"""A table on its way to another process is the same there."""

import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Family
from kubeproxy.config.types import IPVS, KubeProxyConfiguration
from kubeproxy.config.values import of_seconds
from kubeproxy.engine.observer import SyncStarted
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.tablewire import Desired, UnreadableTable, read_table, table_pieces
from kubeproxy.table.node import PodCIDR, PodInterface
from serve.status.living import Rig, programmed
from world import Mode, endpoint_slice, everywhere, node, prefix, service

CART = (
    everywhere(
        {
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 32000,
            "sessionAffinity": "ClientIP",
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
        }
    ),
    endpoint_slice("L1 R1 R2:draining"),
)
DNS = service(
    {"clusterIP": "10.112.0.10", "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
    name="dns",
)


def travelled(live: Live, family: Family = Family.IPV4) -> Desired:
    return read_table(b"".join(table_pieces(live.state(), family)))


async def test_the_table_arrives_as_it_left() -> None:
    rig = await programmed(*CART, DNS)
    rig.kernels[Family.IPV4].refuse = {"dns"}
    await rig.sync()
    found = travelled(rig.live)
    sync = rig.syncs[Family.IPV4]
    assert sync.builder.table == found.table
    assert found.table.health_checks
    assert len(found.table.entries) == 2
    assert (found.node, found.mode) == (sync.node, "nftables")
    assert (found.failed, found.syncs, found.syncing) == (sync.failed, 2, False)


async def test_each_family_has_its_own() -> None:
    rig = await programmed(*CART)
    assert travelled(rig.live, Family.IPV6).table.entries == {}
    assert travelled(rig.live, Family.IPV6).node.family is Family.IPV6


@pytest.mark.parametrize(
    "detector",
    [
        PodCIDR(prefix("10.64.0.0/14")),
        PodInterface("cni0"),
        PodInterface("veth", prefix=True),
        None,
    ],
    ids=repr,
)
async def test_however_pods_are_told_from_others(
    detector: PodCIDR | PodInterface | None,
) -> None:
    rig = await programmed(*CART)
    sync = rig.syncs[Family.IPV4]
    sync._node = replace(node(Mode.IPTABLES), detector=detector)
    assert travelled(rig.live).node == sync._node


async def test_the_configuration_comes_along() -> None:
    rig = await programmed(*CART, mode=Mode.IPVS)
    rig.config = KubeProxyConfiguration(
        mode="ipvs",
        feature_gates={"AllAlpha": True},
        ipvs=IPVS(scheduler="wrr", exclude_cidrs=("10.0.0.0/8",), sync_period=of_seconds(5)),
    )
    found = travelled(rig.live)
    assert (found.config, found.mode) == (rig.config, "ipvs")


async def test_it_is_all_of_one_moment_whatever_comes_between() -> None:
    rig = await programmed(*CART, DNS)
    before = travelled(rig.live).table
    pieces = table_pieces(rig.live.state(), Family.IPV4)
    begun = next(pieces)
    rig.put(service({"clusterIP": "10.112.0.99"}, name="late"), endpoint_slice("R1"))
    await rig.sync()
    assert read_table(begun + b"".join(pieces)).table == before
    assert len(travelled(rig.live).table.entries) == 3


async def test_who_reads_knows_that_a_sync_is_under_way() -> None:
    rig = await programmed(*CART)
    rig.history.observe(SyncStarted(Family.IPV4))
    assert travelled(rig.live).syncing


def test_before_the_first_sync_there_is_nothing() -> None:
    rig = Rig(*CART)
    assert b"".join(table_pieces(rig.live.state(), Family.IPV4)) == b""


async def test_what_is_no_table_or_only_a_part() -> None:
    rig = await programmed(*CART, DNS)
    whole = b"".join(table_pieces(rig.live.state(), Family.IPV4))
    broken = whole[: whole.rindex(b"\n", 0, -1) + 1]
    with pytest.raises(UnreadableTable, match="broke off after 1 of 2 service ports"):
        read_table(broken)
    for data in (b"", b"404 page not found\n", whole[:-10]):
        with pytest.raises(UnreadableTable, match="may be of another version"):
            read_table(data)
