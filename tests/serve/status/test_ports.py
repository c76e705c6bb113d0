"""One service port: which endpoints are used, and why the others are not."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import finish
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.ports import WAITS, service_detail
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail
from kubeproxy.serve.traffic.totals import Tally, Totals, TrafficWindow
from kubeproxy.table.entries import Backend, ServicePortName
from serve.status.living import Rig
from world import (
    CLUSTER_IP,
    VIP,
    Document,
    endpoint_slice,
    everywhere,
    service,
    table_of,
)

V4 = Family.IPV4
CART_HTTP = ServicePortName("shop", "cart", "http", Protocol.TCP)


async def detail(
    *documents: Document,
    look: TrafficWindow | None = None,
    is_synced: bool = True,
    refuse: str = "",
) -> PortDetail:
    """The only port of the cart in IPv4."""
    rig = Rig(*documents, families=(V4,))
    rig.kernels[V4].refuse = {refuse}
    if is_synced:
        await rig.sync()
    state = rig.live.state()
    families = {V4: replace(state.families[V4], look=look)}
    found = finish(service_detail(replace(state, families=families), "shop", "cart"))
    assert found is not None
    (port,) = found.ports
    return port


LOCAL_OUT = {"externalTrafficPolicy": "Local"}
LOCAL_IN = {"internalTrafficPolicy": "Local"}
ON_HERON = "it is on node heron, and the traffic policy is Local"
OTHER_ZONE = "its topology hints are for zone z-west, and this node is in z-east"


@pytest.mark.parametrize(
    ("document", "endpoints", "expected"),
    [
        pytest.param(service(), "L1", {"L1": (True, "", None)}, id="used"),
        pytest.param(
            service(),
            "L1 R1:unready",
            {"L1": (True, "", None), "R1": (False, "it is not ready", None)},
            id="not-ready",
        ),
        pytest.param(
            service(),
            "L1:draining R1:stopped",
            {
                "L1": (True, "", None),
                "R1": (False, "it is terminating and no longer serves", None),
            },
            id="draining-is-better-than-none",
        ),
        pytest.param(
            everywhere(LOCAL_OUT),
            "L1 R1",
            {"L1": (True, "", ""), "R1": (True, "", ON_HERON)},
            id="local-for-those-outside",
        ),
        pytest.param(
            service(LOCAL_IN),
            "L1 R1",
            {"L1": (True, None, ""), "R1": (False, None, ON_HERON)},
            id="local-for-all",
        ),
        pytest.param(
            service(),
            "L1@z-west R1@z-east",
            {"L1": (False, OTHER_ZONE, None), "R1": (True, "", None)},
            id="topology-hints",
        ),
    ],
)
async def test_why_endpoints_are_not_used(
    document: Document, endpoints: str, expected: Mapping[str, tuple[object, ...]]
) -> None:
    names = {"10.64.3.11": "L1", "10.65.7.21": "R1"}
    found = (await detail(document, endpoint_slice(endpoints))).endpoints
    assert expected == {
        names[each.address]: (each.used, each.not_for_cluster, each.not_for_local)
        for each in found
    }


async def test_endpoints_are_in_the_order_in_which_people_count() -> None:
    slice_ = {
        **endpoint_slice("L1"),
        "endpoints": [{"addresses": [f"10.64.3.{last}"]} for last in (100, 11, 2)],
    }
    found = (await detail(service(), slice_)).endpoints
    assert [each.address for each in found] == ["10.64.3.2", "10.64.3.11", "10.64.3.100"]


async def test_an_endpoint_in_full() -> None:
    tally = Tally(endpoints={Backend("10.64.3.11", 8080, local=True): 9})
    before = Tally(endpoints={Backend("10.64.3.11", 8080, local=True): 3})
    look = TrafficWindow(Totals(12.0, 1, {CART_HTTP: tally}), Totals(10.0, 1, {CART_HTTP: before}))
    (found,) = (await detail(service(), endpoint_slice("L1:draining"), look=look)).endpoints
    expected = EndpointDetail(
        address="10.64.3.11",
        port=8080,
        node="kestrel",
        on_this_node=True,
        ready=False,
        serving=True,
        terminating=True,
        used=True,
        not_for_cluster="",
        not_for_local=None,
        connections=9,
        per_second=3.0,
    )
    assert expected == found


async def test_a_service_port_in_full() -> None:
    spec = {
        **LOCAL_OUT,
        "sessionAffinity": "ClientIP",
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "healthCheckNodePort": 32000,
        "externalIPs": [],
    }
    entry = table_of(everywhere(spec)).entries[CART_HTTP]
    now = Tally({frontend: number for number, frontend in enumerate(entry.frontends)})
    look = TrafficWindow(Totals(1.0, 1, {CART_HTTP: now}))
    found = await detail(everywhere(spec), look=look)
    expected = PortDetail(
        name="http",
        protocol="TCP",
        ip_family="IPv4",
        frontends=(
            FrontendDetail("cluster-ip", CLUSTER_IP, 80, 0),
            FrontendDetail("load-balancer", VIP, 80, 1),
            FrontendDetail("node-port", "", 31080, 2),
        ),
        endpoints=(),
        internal_traffic_policy="Cluster",
        external_traffic_policy="Local",
        affinity_seconds=10800,
        source_ranges=("192.0.2.0/24",),
        balance="random",
        health_check_port=32000,
    )
    assert expected == found


async def test_what_does_not_concern_it_is_empty() -> None:
    found = await detail(service())
    assert (found.external_traffic_policy, found.source_ranges) == ("", None)
    assert [each.connections for each in found.frontends] == [None]


async def test_one_that_waits_shows_what_it_will_have() -> None:
    found = await detail(service(), is_synced=False)
    assert found.not_programmed == WAITS
    assert [each.address for each in found.frontends] == [CLUSTER_IP]


async def test_conflicts_and_refusals_are_named() -> None:
    found = await detail(service(name="art"), service(), refuse="cart")
    assert found.not_programmed == "the kernel does not want it"
    assert found.conflicts == (
        wire.AddressConflict("10.112.0.21:80/TCP", "shop/art:http", "shop/cart:http"),
    )
