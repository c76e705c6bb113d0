import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.endpoint import derive_slice
from kubeproxy.cluster.model.merge import PortEndpoint, endpoints_of
from kubeproxy.cluster.model.serviceport import ServicePort, derive_service_ports
from kubeproxy.cluster.model.topology import LeftOut, usable_endpoints, why_left_out
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.types import EndpointSlice, Service
from world import NODE_NAME, ZONE, endpoint_slice, everywhere, service

HERE = (NODE_NAME, ZONE)


def merged(endpoints: str) -> list[PortEndpoint]:
    obj = convert(Kind.ENDPOINT_SLICE, endpoint_slice(endpoints))
    assert isinstance(obj, EndpointSlice)
    derived = derive_slice(obj, NODE_NAME, [])
    assert derived is not None
    return endpoints_of({"cart-1": derived}, "http", Protocol.TCP)


def port(*, local: bool) -> ServicePort:
    policy = "Local" if local else "Cluster"
    document = everywhere({"externalTrafficPolicy": policy, "healthCheckNodePort": 32100})
    obj = convert(Kind.SERVICE, document)
    assert isinstance(obj, Service)
    return derive_service_ports(obj, Family.IPV4, [])[0]


@pytest.mark.parametrize(
    ("endpoints", "local", "expected"),
    [
        pytest.param("L1", False, [None], id="used"),
        pytest.param("L1:unready R1", False, [LeftOut.NOT_READY, None], id="not-ready"),
        pytest.param("L1:stopped R1", False, [LeftOut.STOPPED, None], id="stopped"),
        pytest.param("L1:draining R1", False, [LeftOut.TERMINATING, None], id="draining"),
        pytest.param("L1@z-west R1@z-east", False, [LeftOut.NOT_HINTED, None], id="wrong-zone"),
        pytest.param("L1 R1", True, [None, LeftOut.NOT_LOCAL], id="not-local"),
        pytest.param("L1 R1:unready", True, [None, LeftOut.NOT_READY], id="not-local-nor-ready"),
        pytest.param("L1 L2:draining", True, [None, LeftOut.TERMINATING], id="local-draining"),
    ],
)
def test_every_endpoint_that_is_left_out_has_a_reason(
    endpoints: str, local: bool, expected: list[LeftOut | None]
) -> None:
    found = merged(endpoints)
    usable = usable_endpoints(port(local=local), found, *HERE)
    assert expected == why_left_out(found, usable, local_policy=local)


def test_a_port_that_never_looks_at_a_list_has_none() -> None:
    internal = convert(Kind.SERVICE, service({"internalTrafficPolicy": "Local"}))
    assert isinstance(internal, Service)
    only_local = derive_service_ports(internal, Family.IPV4, [])[0]
    found = merged("R1")
    usable = usable_endpoints(only_local, found, *HERE)
    assert (usable.cluster, usable.local, usable.any) == (None, (), True)
    assert why_left_out(found, usable, local_policy=True) == [LeftOut.NOT_LOCAL]


def test_endpoints_are_in_upstream_order() -> None:
    names = [at.endpoint.address for at in merged("R2 L2 R1 L1")]
    assert names == ["10.64.3.11", "10.64.3.12", "10.65.7.21", "10.66.9.31"]
