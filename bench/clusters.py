"""Clusters of any size, as the JSON that an API server sends.

An endpoint is known by its serial number, from which its address, node and zone follow. A cluster
begins with the serial numbers in order; what replaces an endpoint gets a number of its own.
"""

from collections.abc import Iterator, Sequence

import msgspec

from kubeproxy.cluster.objects.meta import Kind

Document = dict[str, object]

NODE = "node-0"
NODE_ADDRESS = "192.0.2.1"
POD_RANGE = "10.128.0.0/9"
SERVICE_RANGE = "10.96.0.0/12"
SERVICE_PORT = 80
ENDPOINT_PORT = 8080
PORT_NAME = "http"
MOST_ENDPOINTS = 100
"""In one slice, as the controller of Kubernetes fills them."""
SERIALS = 1 << 23
"""So many endpoints have an address of their own."""
_NODES = 100
_encode = msgspec.json.Encoder().encode


class Size(msgspec.Struct, frozen=True):
    """So many services with so many endpoints each."""

    services: int
    endpoints: int

    def __str__(self) -> str:
        return f"{self.services:,} x {self.endpoints:,}"

    @property
    def total(self) -> int:
        """All endpoints."""
        return self.services * self.endpoints

    def serials(self, index: int) -> range:
        """The endpoints with which a service begins."""
        return range(index * self.endpoints, (index + 1) * self.endpoints)


def parse_size(text: str) -> Size:
    """The size that `8000x30` stands for."""
    services, _, endpoints = text.partition("x")
    if not (services.isdecimal() and endpoints.isdecimal()):
        raise ValueError(f"{text!r} is no size; write services x endpoints, such as 8000x30")
    return Size(int(services), int(endpoints))


def service_document(index: int) -> Document:
    """One Service with one port, with the metadata that real ones carry."""
    name = f"service-{index}"
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": _metadata(name, {"app": name}),
        "spec": {
            "ports": [
                {
                    "name": PORT_NAME,
                    "protocol": "TCP",
                    "port": SERVICE_PORT,
                    "targetPort": ENDPOINT_PORT,
                }
            ],
            "selector": {"app": name},
            "clusterIP": cluster_ip(index),
            "clusterIPs": [cluster_ip(index)],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def slice_document(index: int, number: int, serials: Sequence[int]) -> Document:
    """A slice of a Service with the endpoints of these serial numbers."""
    name = f"service-{index}"
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": _metadata(f"{name}-abcd{number}", {"kubernetes.io/service-name": name}),
        "addressType": "IPv4",
        "endpoints": [_endpoint(index, serial) for serial in serials],
        "ports": [{"name": PORT_NAME, "port": ENDPOINT_PORT, "protocol": "TCP"}],
    }


def node_document() -> Document:
    """The Node on which the proxy runs."""
    labels = {"kubernetes.io/hostname": NODE, "topology.kubernetes.io/zone": "zone-0"}
    metadata = {**_metadata(NODE, labels)}
    del metadata["namespace"]
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"podCIDR": "10.128.0.0/24", "podCIDRs": ["10.128.0.0/24"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": NODE_ADDRESS},
                {"type": "Hostname", "address": NODE},
            ]
        },
    }


def service_cidr_document() -> Document:
    """The range of cluster IPs."""
    metadata = _metadata("kubernetes", {})
    del metadata["namespace"]
    return {
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": metadata,
        "spec": {"cidrs": [SERVICE_RANGE]},
    }


def slices(serials: Sequence[int], most: int = MOST_ENDPOINTS) -> list[Sequence[int]]:
    """The endpoints of a service as its slices have them."""
    starts = range(0, max(len(serials), 1), most)
    return [serials[start : start + most] for start in starts]


def documents(size: Size) -> Iterator[Document]:
    """Everything that an API server has, but for the Node and the ServiceCIDR."""
    for index in range(size.services):
        yield service_document(index)
    for index in range(size.services):
        for number, serials in enumerate(slices(size.serials(index))):
            yield slice_document(index, number, serials)


def objects(size: Size) -> list[tuple[Kind, bytes]]:
    """The same as JSON, an object at a time."""
    kinds = {"Service": Kind.SERVICE, "EndpointSlice": Kind.ENDPOINT_SLICE}
    return [(kinds[str(each["kind"])], _encode(each)) for each in documents(size)]


def service(index: int) -> bytes:
    """A Service's JSON."""
    return _encode(service_document(index))


def endpoint_slice(index: int, endpoints: int, *, version: int = 0) -> bytes:
    """The first slice of a Service of so many endpoints; each version replaces its first one."""
    serials = list(slices(Size(index + 1, endpoints).serials(index))[0])
    if version:
        serials[0] = SERIALS - version
    return _encode(slice_document(index, 0, serials))


def cluster_ip(index: int) -> str:
    """The address of a service."""
    return f"10.{96 + (index >> 16)}.{index >> 8 & 255}.{index & 255}"


def endpoint_address(serial: int) -> str:
    """The address of an endpoint, out of the pod range."""
    return f"10.{128 + (serial >> 16 & 127)}.{serial >> 8 & 255}.{serial & 255}"


def _endpoint(service_index: int, serial: int) -> Document:
    return {
        "addresses": [endpoint_address(serial)],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": f"node-{serial % _NODES}",
        "zone": f"zone-{serial % 3}",
        "targetRef": {
            "kind": "Pod",
            "namespace": "default",
            "name": f"service-{service_index}-5d4f8c7b9-{serial:05d}",
            "uid": f"00000000-0000-0000-0000-{serial:012d}",
        },
    }


def _metadata(name: str, labels: dict[str, str]) -> Document:
    return {
        "name": name,
        "namespace": "default",
        "uid": "5d0b2a3c-0000-4000-8000-000000000000",
        "resourceVersion": "12345",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }
