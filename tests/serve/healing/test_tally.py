"""Counts within a limit: with less detail rather than not."""

from collections.abc import Sequence

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.failures import UNKNOWN, Endpoint
from kubeproxy.serve.healing.tally import IDLE, LABELS, WITH_REASON, Series, Tally, series_of
from kubeproxy.serve.metrics.families import About, MetricKind
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.table.entries import ServicePortName
from serve.metrics.exposed import shown

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
TILL = ServicePortName("shop", "till", "", Protocol.TCP)
FIRST, SECOND, THIRD = (Endpoint(f"10.64.3.{last}", 8080) for last in (11, 12, 13))
ABOUT = About("failures_total", MetricKind.COUNTER, "Failures", LABELS)
FINE = SeriesLimits()


def at(name: ServicePortName, endpoint: Endpoint = UNKNOWN) -> Series:
    return series_of(Family.IPV4, name, endpoint)


def brief(tally: Tally) -> dict[str, str]:
    """Service and endpoint of each series, and its value."""
    found = {}
    for series, value in shown(tally.family).items():
        labels = dict(pair.split("=") for pair in series.partition("{")[2][:-1].split(","))
        found[f"{labels['service']} {labels['endpoint']}".replace('"', "").strip()] = value
    return found


def test_a_series_has_all_labels() -> None:
    about = About("failures_total", MetricKind.COUNTER, "Failures", WITH_REASON)
    tally = Tally(about, FINE, lambda: 0.0, "refused", "unanswered")
    tally.add(series_of(Family.IPV6, TILL, Endpoint("fd40::11", 8080), "refused"), 3)
    empty = 'endpoint="",ip_family="",namespace="",port="",protocol=""'
    assert shown(tally.family) == {
        'failures_total{endpoint="[fd40::11]:8080",ip_family="IPv6",namespace="shop",port="",'
        'protocol="TCP",reason="refused",service="till"}': "3",
        f'failures_total{{{empty},reason="refused",service=""}}': "0",
        f'failures_total{{{empty},reason="unanswered",service=""}}': "0",
    }


@pytest.mark.parametrize(
    ("limits", "added", "expected"),
    [
        pytest.param(FINE, [], {"": "0"}, id="nothing-yet"),
        pytest.param(
            FINE,
            [at(CART, FIRST), at(CART, FIRST), at(CART, SECOND)],
            {"cart 10.64.3.11:8080": "2", "cart 10.64.3.12:8080": "1", "": "0"},
            id="endpoints",
        ),
        pytest.param(FINE, [at(CART)], {"cart": "1", "": "0"}, id="an-endpoint-that-is-unknown"),
        pytest.param(
            SeriesLimits(series=2),
            [at(CART, FIRST), at(CART, SECOND), at(CART, THIRD), at(CART, FIRST)],
            {"cart 10.64.3.11:8080": "2", "cart": "2", "": "0"},
            id="beyond-half-of-the-limit-with-the-service",
        ),
        pytest.param(
            SeriesLimits(series=2),
            [at(CART, FIRST), at(CART, SECOND), at(TILL, THIRD)],
            {"cart 10.64.3.11:8080": "1", "cart": "1", "": "1"},
            id="beyond-the-limit-together",
        ),
        pytest.param(
            SeriesLimits(series=1),
            [at(CART, FIRST), at(TILL, FIRST)],
            {"cart": "1", "": "1"},
            id="the-smallest-limit",
        ),
        pytest.param(
            SeriesLimits(series=0),
            [at(CART, FIRST), at(CART, SECOND), at(TILL)],
            {"cart 10.64.3.11:8080": "1", "cart 10.64.3.12:8080": "1", "till": "1", "": "0"},
            id="no-limit",
        ),
        pytest.param(
            SeriesLimits(Detail.SERVICE), [at(CART, FIRST)], {"cart": "1", "": "0"}, id="coarse"
        ),
        pytest.param(SeriesLimits(Detail.NONE), [at(CART, FIRST)], {"": "1"}, id="nameless"),
    ],
)
def test_what_is_counted_where(
    limits: SeriesLimits, added: Sequence[Series], expected: dict[str, str]
) -> None:
    tally = Tally(ABOUT, limits, lambda: 0.0)
    for each in added:
        tally.add(each)
    assert expected == brief(tally)


def test_what_has_not_counted_for_long_makes_room() -> None:
    now = 0.0
    tally = Tally(ABOUT, SeriesLimits(series=4), lambda: now)
    tally.add(at(CART, FIRST))
    tally.add(at(CART, SECOND))
    now = IDLE
    tally.add(at(CART, FIRST))
    tally.add(at(CART, THIRD))
    assert brief(tally) == {"cart 10.64.3.11:8080": "2", "cart 10.64.3.13:8080": "1", "": "0"}
    tally.add(at(CART, SECOND))
    assert brief(tally)["cart"] == "1"
    assert (tally.of(at(CART, FIRST)), tally.of(at(CART, SECOND))) == (2, 0)


def test_what_has_gone_is_forgotten() -> None:
    tally = Tally(ABOUT, FINE, lambda: 0.0)
    for each in (at(CART, FIRST), at(CART), at(TILL, FIRST)):
        tally.add(each)
    tally.forget(lambda series: series.service == "cart")
    assert brief(tally) == {"till 10.64.3.11:8080": "1", "": "0"}
