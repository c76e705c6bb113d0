"""What one Service may ask for, and what becomes of one that asks for more."""

from collections.abc import Mapping, Sequence

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.base.steps import finish
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.table import limits
from kubeproxy.table.build import Builder
from kubeproxy.table.limits import MOST, Size, surely_fit, within_limits
from world import CART, Document, cluster_of, endpoint_slice, seen_by, service, table_of

FEW = Size(frontends=12, backends=20, pairs=40)


def ports(count: int, **more: object) -> list[Document]:
    return [{"name": f"p{number}", "port": number + 1, **more} for number in range(count)]


def addresses(count: int, network: str = "198.18") -> list[str]:
    return [f"{network}.{number >> 8}.{number & 255}" for number in range(count)]


def slice_of(endpoints: int, port_count: int, name: str = "cart-1") -> Document:
    listed = [{"addresses": [address]} for address in addresses(endpoints, "10.65")]
    return endpoint_slice(spec={"ports": ports(port_count), "endpoints": listed}, name=name)


def fit(*documents: Mapping[str, object]) -> limits.Fit:
    """What fits; the quick look must not take for fit what does not."""
    cluster = cluster_of(*documents)
    slices = list(cluster.slices(Family.IPV4, CART).values())
    service_ports = cluster.service_ports(Family.IPV4, CART)
    found = finish(within_limits(service_ports, slices))
    assert not (found.excess and surely_fit(service_ports, slices))
    return found


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST", FEW)


def balanced(port_count: int, vips: int, ranges: int) -> Document:
    spec = {
        "type": "LoadBalancer",
        "ports": ports(port_count),
        "loadBalancerSourceRanges": [f"{address}/32" for address in addresses(ranges)],
    }
    return service(spec, vips=addresses(vips, "203.0"))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("documents", "served", "expected"),
    [
        pytest.param([service({"ports": ports(3)})], 3, "", id="few-without-endpoints"),
        pytest.param(
            [service({"ports": ports(4)}), slice_of(5, 4)], 4, "", id="as-many-as-there-may-be"
        ),
        pytest.param(
            [service({"ports": ports(5)}), slice_of(5, 5)],
            4,
            "4 of its 5 ports are served, in their order: it asks for 25 backends"
            " (ports x endpoints) where one Service may have 20 in an IP family;"
            " split it into several Services",
            id="one-port-too-many",
        ),
        pytest.param(
            [service({"ports": ports(1)}), slice_of(15, 1), slice_of(15, 1, "cart-2")],
            0,
            "0 of its 1 ports are served, in their order: it asks for 30 backends"
            " (ports x endpoints) where one Service may have 20 in an IP family;"
            " split it into several Services",
            id="one-port-with-too-many",
        ),
        pytest.param(
            [service({"ports": ports(1)}), slice_of(15, 8)], 1, "", id="ports-of-slices-only"
        ),
        pytest.param(
            [service({"ports": ports(5), "externalIPs": addresses(2)})],
            4,
            "4 of its 5 ports are served, in their order: it asks for 15 frontends"
            " (ports x addresses) where one Service may have 12 in an IP family;"
            " split it into several Services",
            id="too-many-addresses",
        ),
        pytest.param(
            [
                service({"type": "NodePort", "ports": ports(4, nodePort=30000)}),
                slice_of(5, 4),
            ],
            4,
            "",
            id="node-ports-count-too",
        ),
        pytest.param(
            [service({"ports": ports(2), "externalIPs": addresses(3)}), slice_of(6, 2)],
            1,
            "1 of its 2 ports are served, in their order: it asks for 48 pairs of frontends and"
            " backends, and of load-balancer addresses and source ranges where one Service may"
            " have 40 in an IP family; split it into several Services",
            id="too-many-backends-of-frontends",
        ),
        pytest.param(
            [balanced(2, vips=2, ranges=11)],
            1,
            "1 of its 2 ports are served, in their order: it asks for 44 pairs of frontends and"
            " backends, and of load-balancer addresses and source ranges where one Service may"
            " have 40 in an IP family; split it into several Services",
            id="too-many-source-ranges",
        ),
    ],
)
def test_ports_are_served_in_their_order_until_a_limit_is_reached(
    documents: Sequence[Document], served: int, expected: str
) -> None:
    found = fit(*documents)
    assert [f"p{number}" for number in range(served)] == [port.name for port in found.ports]
    assert expected == found.excess


def test_what_is_left_out_is_never_made() -> None:
    """20 million backends would be gigabytes: they are counted, and 250,000 are made."""
    cluster = cluster_of(service({"ports": ports(20_000)}), slice_of(1000, 20_000))
    builder = Builder(Family.IPV4)
    changes = builder.update(cluster, (), seen_by(cluster))
    assert len(changes.added) == MOST.backends // 1000
    assert sum(len(entry.cluster) for entry in changes.added) == MOST.backends
    assert "250 of its 20,000 ports are served" in builder.excess[CART]


@pytest.mark.parametrize(
    ("port_count", "external", "endpoints"),
    [
        pytest.param(3, 0, 10_000, id="three-ports-of-ten-thousand-endpoints"),
        pytest.param(300, 300, 3, id="three-hundred-ports-at-three-hundred-addresses"),
    ],
)
def test_what_large_clusters_have_is_served(
    port_count: int, external: int, endpoints: int
) -> None:
    spec = {"ports": ports(port_count), "externalIPs": addresses(external)}
    assert fit(service(spec), slice_of(endpoints, port_count)).excess == ""


def follow(cluster: Cluster) -> Builder:
    builder = Builder(Family.IPV4)
    builder.update(cluster, (), seen_by(cluster))
    return builder


@pytest.mark.usefixtures("few")
def test_who_asks_for_less_again_is_served_in_full() -> None:
    cluster = cluster_of(service({"ports": ports(5)}), slice_of(5, 5))
    builder = follow(cluster)
    assert [*builder.excess] == [CART]
    fewer = cluster_of(service({"ports": ports(5)}), slice_of(4, 5))
    builder.update(fewer, [CART], seen_by(fewer))
    assert builder.excess == {}
    assert builder.table == table_of(service({"ports": ports(5)}), slice_of(4, 5))
