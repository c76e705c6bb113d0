from itertools import chain

import msgspec
import pytest
from bench.clusters import (
    MOST_ENDPOINTS,
    NODE,
    SERIALS,
    Size,
    cluster_ip,
    documents,
    endpoint_address,
    endpoint_slice,
    node_document,
    objects,
    parse_size,
    service_cidr_document,
    slices,
)
from bench.compiled import THIS_NODE

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert, decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.table.build import Builder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("8000x30", Size(8000, 30), id="services-by-endpoints"),
        pytest.param("100x1000", Size(100, 1000), id="more-endpoints-than-services"),
    ],
)
def test_a_size_is_read_as_it_is_written(text: str, expected: Size) -> None:
    assert expected == parse_size(text)


@pytest.mark.parametrize("text", ["8000", "x", "axb", "10x-1", "8,000x30"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "lengths"),
    [
        pytest.param(0, [0], id="a-service-without-endpoints-has-an-empty-slice"),
        pytest.param(100, [100], id="a-full-slice"),
        pytest.param(250, [100, 100, 50], id="no-slice-has-more-than-the-controller-puts-there"),
    ],
)
def test_endpoints_are_spread_over_slices(count: int, lengths: list[int]) -> None:
    found = slices(range(count))
    assert lengths == [len(part) for part in found]
    assert list(range(count)) == list(chain(*found))


def test_every_endpoint_and_service_has_an_address_of_its_own() -> None:
    size = Size(70, 250)
    serials = [*chain(*(size.serials(index) for index in range(size.services))), SERIALS - 1]
    assert size.total + 1 == len({endpoint_address(serial) for serial in serials})
    assert len({cluster_ip(index) for index in range(70_000)}) == 70_000


def test_the_proxy_makes_of_a_cluster_what_its_size_says() -> None:
    size = Size(3, MOST_ENDPOINTS + 1)
    cluster, builder = Cluster(NODE), Builder(Family.IPV4)
    for kind, data in objects(size):
        cluster.upsert(kind, decode(kind, data))
    for kind, document in (
        (Kind.NODE, node_document()),
        (Kind.SERVICE_CIDR, service_cidr_document()),
    ):
        cluster.upsert(kind, convert(kind, document))
    assert not cluster.problems
    builder.update(cluster, (), THIS_NODE)
    assert [len(e.cluster) for e in builder.table.entries.values()] == [101, 101, 101]
    assert len(list(documents(size))) == 3 + 3 * 2


def test_a_version_of_a_slice_has_another_first_endpoint_only() -> None:
    def addresses(version: int) -> list[str]:
        document = msgspec.json.decode(endpoint_slice(5, 3, version=version))
        return [endpoint["addresses"][0] for endpoint in document["endpoints"]]

    before, after = addresses(0), addresses(1)
    assert before[1:] == after[1:]
    assert before[0] != after[0]
