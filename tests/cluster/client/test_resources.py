"""What is watched."""

import pytest

from kubeproxy.cluster.client.resources import (
    ENDPOINT_SLICES,
    SERVICE_CIDRS,
    SERVICES,
    Query,
    Resource,
    list_query,
    own_node,
)


@pytest.mark.parametrize(
    ("resource", "name", "selectors"),
    [
        pytest.param(
            SERVICES,
            "services",
            (
                ("labelSelector", "!service.kubernetes.io/service-proxy-name"),
                ("fieldSelector", "spec.clusterIP!=None"),
            ),
            id="services-that-are-ours-and-not-headless",
        ),
        pytest.param(
            ENDPOINT_SLICES,
            "endpointslices",
            (("labelSelector", "!service.kubernetes.io/headless"),),
            id="slices-that-are-not-headless",
        ),
        pytest.param(SERVICE_CIDRS, "servicecidrs", (), id="all-service-cidrs"),
        pytest.param(
            own_node("n1"), "nodes", (("fieldSelector", "metadata.name=n1"),), id="our-own-node"
        ),
    ],
)
def test_what_is_watched(resource: Resource, name: str, selectors: Query) -> None:
    assert name == resource.name
    assert selectors == list_query(resource)
