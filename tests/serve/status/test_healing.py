"""What the status shows of endpoints that fail: in the daemon, the list, a Service, an answer."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import finish
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION as ANNOTATION
from kubeproxy.config.types import HealingSettings, NFTables
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.observer import ConnectionsFailed, EjectionWithheld
from kubeproxy.serve.status.packets import explanations
from kubeproxy.serve.status.ports import service_detail
from kubeproxy.serve.status.report import ProcessUsage, report
from kubeproxy.serve.status.services import Search, service_list
from kubeproxy.serve.status.wire import FamilyStatus, LeftOut, PortDetail
from kubeproxy.table.entries import FrontendKey, ServicePortName
from serve.status.living import START, Rig
from world import CLUSTER_IP, Document, Mode, endpoint_slice, everywhere, service

V4 = Family.IPV4
NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)
L1, R1 = Endpoint("10.64.3.11", 8080), Endpoint("10.65.7.21", 8080)
OUT = Ejection(NAME, L1, START + 5, Reason.REFUSED, 16, 3, 1)
WHY = (
    "left out until 22:13:25 UTC: 16 connections of 3 clients were refused; it is tried again then"
)
LOCAL = {"externalTrafficPolicy": "Local"}
DIALLED = FrontendKey(CLUSTER_IP, Protocol.TCP, 80)


def healed(document: Document, parts: str = "all") -> Document:
    """The Service with the annotation."""
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    return {**document, "metadata": {**metadata, "annotations": {ANNOTATION: parts}}}


async def rig(*documents: Document, mode: Mode = Mode.NFTABLES, parts: str = "none") -> Rig:
    """A daemon that has programmed these documents; `parts` as configured."""
    found = Rig(*documents, mode=mode, families=(V4,))
    nftables = NFTables(healing=HealingSettings(parts=parts))
    found.config = replace(found.config, nftables=nftables)
    await found.sync()
    return found


def failed(reason: Reason, endpoint: Endpoint = L1, times: int = 1) -> ConnectionsFailed:
    failure = Failure(reason, "10.64.3.50", DIALLED, endpoint, times)
    return ConnectionsFailed(V4, ((NAME, failure),))


def port(found: Rig) -> PortDetail:
    """The only port of the cart."""
    detail = finish(service_detail(found.live.state(), "shop", "cart"))
    assert detail is not None
    (only,) = detail.ports
    return only


def family(found: Rig) -> FamilyStatus:
    state = replace(found.live.state(), now=found.seconds)
    return finish(report(state, ProcessUsage(1, 0.0, 0))).families[0]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            service(),
            {"10.64.3.11": (False, WHY, None), "10.65.7.21": (True, "", None)},
            id="of-all-endpoints",
        ),
        pytest.param(
            everywhere(LOCAL),
            {
                "10.64.3.11": (True, WHY, ""),
                "10.65.7.21": (
                    True,
                    "",
                    "it is on node heron, and the traffic policy is Local",
                ),
            },
            id="the-only-one-of-this-node-stays",
        ),
    ],
)
async def test_an_endpoint_that_is_left_out(
    document: Document, expected: Mapping[str, tuple[object, ...]]
) -> None:
    found = await rig(healed(document), endpoint_slice("L1 R1"))
    await found.eject(OUT)
    endpoints = port(found).endpoints
    assert expected == {
        each.address: (each.used, each.not_for_cluster, each.not_for_local) for each in endpoints
    }
    assert [each.left_out_until for each in endpoints] == ["2023-11-14T22:13:25.000Z", ""]


async def test_how_often_an_endpoint_has_failed() -> None:
    found = await rig(healed(service()), endpoint_slice("L1 R1"))
    for each in (failed(Reason.REFUSED, times=3), failed(Reason.GONE, R1)):
        found.observe(each)
    assert [each.failures for each in port(found).endpoints] == [{"refused": 3}, {"gone": 1}]


UDP = service({"ports": [{"name": "http", "port": 80, "protocol": "UDP"}]})


@pytest.mark.parametrize(
    ("document", "mode", "parts", "expected"),
    [
        pytest.param(service(), Mode.NFTABLES, "none", ("", "", ""), id="nobody-asks"),
        pytest.param(
            service(), Mode.NFTABLES, "all", ("all", "configuration", ""), id="by-configuration"
        ),
        pytest.param(
            healed(service(), "retryRefused, eject"),
            Mode.NFTABLES,
            "all",
            ("retryRefused,eject", "annotation", ""),
            id="by-annotation",
        ),
        pytest.param(
            healed(service(), "none"),
            Mode.NFTABLES,
            "all",
            ("none", "annotation", ""),
            id="not-by-annotation",
        ),
        pytest.param(healed(UDP), Mode.NFTABLES, "all", ("", "", ""), id="not-tcp"),
        pytest.param(
            service(),
            Mode.IPTABLES,
            "resetGone",
            ("", "configuration", "not in iptables mode"),
            id="not-in-this-mode-though-configured",
        ),
        pytest.param(
            healed(service()),
            Mode.IPVS,
            "none",
            ("", "annotation", "not in ipvs mode"),
            id="not-in-this-mode-though-annotated",
        ),
        pytest.param(
            healed(service(), "none"), Mode.IPVS, "all", ("", "", ""), id="nobody-asks-for-it"
        ),
    ],
)
async def test_what_is_in_force(
    document: Document, mode: Mode, parts: str, expected: tuple[str, str, str]
) -> None:
    shown = port(await rig(document, mode=mode, parts=parts))
    assert expected == (shown.healing, shown.healing_by, shown.not_healed)
    assert all(not each.failures for each in shown.endpoints)


async def test_the_daemon() -> None:
    found = await rig(healed(service()), endpoint_slice("L1 R1"))
    assert family(found).failed_connections == 0
    await found.eject(OUT)
    found.observe(failed(Reason.REFUSED, times=3))
    found.observe(EjectionWithheld(V4, NAME))
    found.observe(EjectionWithheld(Family.IPV6, NAME))
    shown = family(found)
    assert shown.left_out == (
        LeftOut(
            service_port="shop/cart:http",
            protocol="TCP",
            endpoint="10.64.3.11:8080",
            until="2023-11-14T22:13:25.000Z",
            reason="refused",
            failures=16,
            clients=3,
            times=1,
            why=WHY,
        ),
    )
    assert shown.at_ejection_limit == ("shop/cart:http",)
    assert shown.failed_connections == 3


async def test_a_mode_that_does_not_heal() -> None:
    shown = family(await rig(service(), mode=Mode.IPTABLES))
    assert (shown.left_out, shown.at_ejection_limit, shown.failed_connections) == ((), (), None)


async def test_the_list() -> None:
    found = await rig(healed(service()), endpoint_slice("L1 R1"))
    await found.eject(OUT)
    (shown,) = finish(service_list(found.live.state(), Search())).services
    assert shown.problems == (f"http:80/TCP: 10.64.3.11:8080 is {WHY}",)
    assert (shown.endpoints_used, shown.endpoints) == (1, 2)


async def test_an_answer() -> None:
    found = await rig(healed(service()), endpoint_slice("L1 R1"))
    await found.eject(OUT)
    explained = finish(explanations(found.live.state(), "outside", ["cart"]))
    assert isinstance(explained, list)
    (shown,) = explained
    assert [(each.endpoint, each.reason) for each in shown.not_chosen] == [
        ("10.64.3.11:8080", WHY)
    ]
