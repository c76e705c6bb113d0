"""What an observer of failures keeps: metrics, and what the status shows."""

from collections.abc import Mapping

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.observer import (
    ConnectionsFailed,
    EjectionWithheld,
    EndpointEjected,
    EndpointTriedAgain,
    SyncEnded,
)
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.healing.record import AT_LIMIT, HealingRecord, in_force
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Backend, Entry, FrontendKey, ServicePortName
from serve.metrics.exposed import shown

V4 = Family.IPV4
CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
TILL = ServicePortName("shop", "till", "http", Protocol.TCP)
FIRST, SECOND = Endpoint("10.64.3.11", 8080), Endpoint("10.65.7.21", 8080)
DIALLED = FrontendKey("10.112.0.21", Protocol.TCP, 80)
OF_CART = 'ip_family="IPv4",namespace="shop",port="http",protocol="TCP"'


def ejection(endpoint: Endpoint = FIRST, name: ServicePortName = CART) -> Ejection:
    return Ejection(name, endpoint, 105.0, Reason.REFUSED, 16, 3, 1)


def failed(reason: Reason, endpoint: Endpoint = FIRST, times: int = 1) -> ConnectionsFailed:
    return ConnectionsFailed(
        V4, ((CART, Failure(reason, "10.64.3.50", DIALLED, endpoint, times)),)
    )


def record(
    left_out: Mapping[ServicePortName, tuple[Ejection, ...]] | None = None,
    limits: SeriesLimits | None = None,
) -> HealingRecord:
    return HealingRecord(
        limits or SeriesLimits(), lambda: 100.0, lambda: {V4: left_out or {}, Family.IPV6: {}}
    )


def series(found: HealingRecord) -> dict[str, str]:
    """Those of `found` that are not 0, without what is common to all of the cart."""
    return {
        name.removeprefix("kubeproxy_").replace(OF_CART, "CART"): value
        for name, value in shown(*found.families()).items()
        if value != "0"
    }


def removed(*names: ServicePortName) -> SyncEnded:
    entries = tuple(Entry(name, ()) for name in names)
    return SyncEnded(V4, Outcome.OK, False, 0.1, Changes(removed=entries), None)


def test_every_family_is_there_before_anything_fails() -> None:
    found = {name.partition("{")[0]: value for name, value in shown(*record().families()).items()}
    assert found == {
        "kubeproxy_connect_failures_total": "0",
        "kubeproxy_connection_resets_total": "0",
        "kubeproxy_endpoint_ejections_total": "0",
        "kubeproxy_ejected_endpoints": "0",
        "kubeproxy_ejection_limit_reached": "0",
    }


def test_what_is_counted() -> None:
    found = record({CART: (ejection(), ejection(SECOND))})
    for each in (
        failed(Reason.REFUSED, times=4),
        failed(Reason.UNANSWERED),
        failed(Reason.GONE, SECOND),
        EndpointEjected(V4, ejection(), 5.0),
        EndpointTriedAgain(V4, ejection()),
        EjectionWithheld(V4, CART),
    ):
        found.observe(each)
    first = 'endpoint="10.64.3.11:8080",CART'
    assert series(found) == {
        f'connect_failures_total{{{first},reason="refused",service="cart"}}': "4",
        f'connect_failures_total{{{first},reason="unanswered",service="cart"}}': "1",
        'connection_resets_total{endpoint="10.65.7.21:8080",CART,service="cart"}': "1",
        f'endpoint_ejections_total{{{first},service="cart"}}': "1",
        'ejected_endpoints{CART,service="cart"}': "2",
        'ejection_limit_reached{CART,service="cart"}': "1",
    }
    assert found.failures_of(V4, CART, FIRST) == {"refused": 4, "unanswered": 1}
    assert found.failures_of(V4, CART, SECOND) == {"gone": 1}
    assert [each.failure.reason for each in found.recent.after(1)] == [
        Reason.UNANSWERED,
        Reason.GONE,
    ]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(SeriesLimits(series=1), {"cart": "1", "": "1"}, id="a-limit"),
        pytest.param(SeriesLimits(Detail.NONE), {"": "2"}, id="no-names"),
    ],
)
def test_gauges_keep_to_the_limit(limits: SeriesLimits, expected: dict[str, str]) -> None:
    found = record({CART: (ejection(),), TILL: (ejection(name=TILL),)}, limits)
    (gauge,) = (each for each in found.families() if each.about.name.endswith("d_endpoints"))
    actual = {name.split('service="')[1].rstrip('"}'): n for name, n in shown(gauge).items()}
    assert expected == actual


def test_series_end_with_their_service() -> None:
    found = record()
    found.observe(failed(Reason.REFUSED))
    found.observe(failed(Reason.GONE))
    found.observe(EjectionWithheld(V4, CART))
    found.observe(removed(TILL))
    assert len(series(found)) == 3
    found.observe(removed())
    assert len(series(found)) == 3
    found.observe(removed(CART))
    assert series(found) == {}
    assert found.at_limit() == []


def test_how_long_it_is_said_that_too_many_are_left_out() -> None:
    now = 100.0
    found = HealingRecord(SeriesLimits(), lambda: now, dict)
    found.observe(EjectionWithheld(V4, CART))
    now += AT_LIMIT - 1
    assert found.at_limit() == [(V4, CART)]
    now += 1
    assert found.at_limit() == []


HERE = Backend("10.64.3.11", 8080, local=True)
THERE = Backend("10.65.7.21", 8080)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(Entry(CART, (), cluster=(THERE,), ejected=(HERE,)), [FIRST], id="left-out"),
        pytest.param(Entry(CART, (), cluster=(HERE, THERE)), [], id="not-yet"),
        pytest.param(
            Entry(CART, (), cluster=(THERE,), local=(HERE,)), [FIRST], id="of-one-of-two-lists"
        ),
        pytest.param(Entry(CART, (), local=(HERE,)), [], id="the-only-one"),
        pytest.param(Entry(CART, (), cluster=(THERE,)), [], id="one-that-has-left"),
    ],
)
def test_which_are_really_left_out(entry: Entry, expected: list[Endpoint]) -> None:
    assert [each.endpoint for each in in_force(entry, [ejection()])] == expected
