"""Which series there are: fine ones while they are few, and never more than allowed."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.serve.traffic.series import (
    Detail,
    SeriesLimits,
    Shares,
    endpoint_series,
    service_series,
)
from kubeproxy.serve.traffic.totals import Tally, Totals
from kubeproxy.table.entries import Backend, Frontend, FrontendKind, ServicePortName

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
DNS = ServicePortName("kube-system", "dns", "", Protocol.UDP)


def cluster_ip(number: int) -> Frontend:
    return Frontend(FrontendKind.CLUSTER_IP, f"10.112.0.{number}", 80)


CART_V4 = Tally(
    {
        cluster_ip(21): 4,
        Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 80): 3,
        Frontend(FrontendKind.EXTERNAL_IP, "198.18.0.5", 80): 2,
        Frontend(FrontendKind.NODE_PORT, "", 31080): 1,
    },
    {Backend("10.64.3.11", 8080): 6, Backend("10.65.7.21", 8080): 4},
)
CART_V6 = Tally(
    {Frontend(FrontendKind.CLUSTER_IP, "fd00::21", 80): 5}, {Backend("fd40::11", 8080): 5}
)
TOTALS = {
    Family.IPV4: Totals(0.0, 1, {CART: CART_V4, DNS: Tally({cluster_ip(10): 20})}),
    Family.IPV6: Totals(0.0, 1, {CART: CART_V6}),
}


def lines(limits: SeriesLimits) -> list[str]:
    return [f"{sample.labels} {sample.value}" for sample in service_series(TOTALS, limits)[1]]


def endpoint_lines(limits: SeriesLimits) -> list[str]:
    return [f"{sample.labels} {sample.value}" for sample in endpoint_series(TOTALS, limits)[1]]


OF_CART = 'namespace="shop",port="http",protocol="TCP",service="cart"}'
FRONTENDS = [
    f'{{address="10.112.0.21:80",frontend="cluster-ip",ip_family="IPv4",{OF_CART} 4',
    f'{{address="203.0.113.7:80",frontend="load-balancer",ip_family="IPv4",{OF_CART} 3',
    f'{{address="198.18.0.5:80",frontend="external-ip",ip_family="IPv4",{OF_CART} 2',
    f'{{address="*:31080",frontend="node-port",ip_family="IPv4",{OF_CART} 1',
    (
        '{address="10.112.0.10:80",frontend="cluster-ip",ip_family="IPv4",namespace="kube-system",'
        'port="",protocol="UDP",service="dns"} 20'
    ),
    f'{{address="[fd00::21]:80",frontend="cluster-ip",ip_family="IPv6",{OF_CART} 5',
]
SERVICES = ['{namespace="shop",service="cart"} 15', '{namespace="kube-system",service="dns"} 20']


@pytest.mark.parametrize(
    ("limits", "expected", "shares"),
    [
        pytest.param(SeriesLimits(), FRONTENDS, Shares(6), id="every-frontend"),
        pytest.param(SeriesLimits(series=6), FRONTENDS, Shares(6), id="as-many-as-allowed"),
        pytest.param(SeriesLimits(series=0), FRONTENDS, Shares(6), id="zero-is-no-limit"),
        pytest.param(
            SeriesLimits(series=5),
            SERVICES,
            Shares(2, merged=6),
            id="too-many-are-merged-by-service",
        ),
        pytest.param(
            SeriesLimits(series=1),
            SERVICES[1:],
            Shares(1, merged=6, dropped=1),
            id="still-too-many-those-with-the-most-connections",
        ),
        pytest.param(
            SeriesLimits(Detail.SERVICE), SERVICES, Shares(2, merged=6), id="by-service-on-request"
        ),
    ],
)
def test_services(limits: SeriesLimits, expected: list[str], shares: Shares) -> None:
    assert expected == lines(limits)
    assert shares == service_series(TOTALS, limits)[0]


ENDPOINTS = [
    f'{{endpoint="10.64.3.11:8080",ip_family="IPv4",{OF_CART} 6',
    f'{{endpoint="10.65.7.21:8080",ip_family="IPv4",{OF_CART} 4',
    f'{{endpoint="[fd40::11]:8080",ip_family="IPv6",{OF_CART} 5',
]


@pytest.mark.parametrize(
    ("limits", "expected", "shares"),
    [
        pytest.param(SeriesLimits(), ENDPOINTS, Shares(3), id="every-endpoint"),
        pytest.param(
            SeriesLimits(series=2),
            [ENDPOINTS[0], ENDPOINTS[2]],
            Shares(2, dropped=1),
            id="too-many-those-with-the-most-connections",
        ),
        pytest.param(SeriesLimits(Detail.SERVICE), [], Shares(dropped=3), id="not-with-services"),
    ],
)
def test_endpoints(limits: SeriesLimits, expected: list[str], shares: Shares) -> None:
    assert expected == endpoint_lines(limits)
    assert shares == endpoint_series(TOTALS, limits)[0]


def test_hostile_names_stay_inside_their_label() -> None:
    name = ServicePortName("a", 'x"} 1\nevil{y="', "", Protocol.TCP)
    totals = {Family.IPV4: Totals(0.0, 1, {name: Tally({cluster_ip(1): 1})})}
    (sample,) = service_series(totals, SeriesLimits())[1]
    assert sample.labels.endswith('service="x\\"} 1\\nevil{y=\\""}')


def test_there_are_as_many_samples_as_in_the_shares() -> None:
    for series in range(8):
        limits = SeriesLimits(series=series)
        assert service_series(TOTALS, limits)[0].shown == len(lines(limits))
        assert endpoint_series(TOTALS, limits)[0].shown == len(endpoint_lines(limits))
