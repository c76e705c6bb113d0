"""The families, as a scrape shows them."""

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import ConnectionCounts, Count
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.traffic.metrics import families
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.serve.traffic.traffic import Traffic
from kubeproxy.table.entries import Backend, Frontend, FrontendKind, ServicePortName

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
FRONTEND = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)


class Kernel:
    def connections(self) -> ConnectionCounts:
        counts = [Count(FRONTEND, b"f", 5), Count(Backend("10.64.3.11", 8080), b"e", 4)]
        return ConnectionCounts(1, [(CART, counts)])


async def scraped(limits: SeriesLimits, *, endpoints: bool) -> str:
    registry = Registry()
    found = families(Traffic({Family.IPV4: Kernel()}), limits, endpoints=endpoints)
    registry.add(*found, in_thread=True)
    try:
        return "".join([piece async for piece in registry.expose()])
    finally:
        registry.close()


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


async def test_services_only() -> None:
    text = await scraped(SeriesLimits(), endpoints=False)
    assert "# TYPE kubeproxy_service_connections_total counter\n" in text
    assert samples(text) == [
        'kubeproxy_connections_series{metric="service",state="shown"} 1',
        'kubeproxy_connections_series{metric="service",state="merged"} 0',
        'kubeproxy_connections_series{metric="service",state="dropped"} 0',
        (
            'kubeproxy_service_connections_total{address="10.112.0.21:80",frontend="cluster-ip",'
            'ip_family="IPv4",namespace="shop",port="http",protocol="TCP",service="cart"} 5'
        ),
    ]


async def test_with_endpoints() -> None:
    text = await scraped(SeriesLimits(), endpoints=True)
    assert (
        'kubeproxy_endpoint_connections_total{endpoint="10.64.3.11:8080",ip_family="IPv4",'
        'namespace="shop",port="http",protocol="TCP",service="cart"} 4'
    ) in samples(text)
    assert 'kubeproxy_connections_series{metric="endpoint",state="shown"} 1' in samples(text)


async def test_none() -> None:
    assert await scraped(SeriesLimits(Detail.NONE), endpoints=True) == ""
