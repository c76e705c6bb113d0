"""Clusters of any size, as the JSON that an API server sends."""

import msgspec

from kubeproxy.objects.meta import Kind


class Size(msgspec.Struct, frozen=True):
    """So many services with so many endpoints each."""

    services: int
    endpoints: int

    def __str__(self) -> str:
        return f"{self.services:,} x {self.endpoints}"


NODE = "node-0"
_NODES = 100
_encode = msgspec.json.Encoder().encode


def service(index: int) -> bytes:
    """One Service with one port, with the metadata that real ones carry."""
    name = f"service-{index}"
    return _encode(
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": _metadata(name, {"app": name}),
            "spec": {
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
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
    )


def endpoint_slice(index: int, endpoints: int, *, version: int = 0) -> bytes:
    """The one slice of a Service; each version replaces its first endpoint."""
    return _encode(
        {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": _metadata(
                f"service-{index}-abcde", {"kubernetes.io/service-name": f"service-{index}"}
            ),
            "addressType": "IPv4",
            "endpoints": [
                _endpoint(index, number, version if number == 0 else 0)
                for number in range(endpoints)
            ],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }
    )


def cluster_ip(index: int) -> str:
    return f"10.{96 + (index >> 16)}.{index >> 8 & 255}.{index & 255}"


def _endpoint(service_index: int, number: int, version: int) -> dict[str, object]:
    count = service_index * 64 + number + version * 32
    return {
        "addresses": [f"10.{128 + (count >> 16 & 127)}.{count >> 8 & 255}.{count & 255}"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": f"node-{count % _NODES}",
        "zone": f"zone-{count % 3}",
        "targetRef": {
            "kind": "Pod",
            "namespace": "default",
            "name": f"service-{service_index}-5d4f8c7b9-{number:05d}",
            "uid": f"00000000-0000-0000-0000-{count:012d}",
        },
    }


def _metadata(name: str, labels: dict[str, str]) -> dict[str, object]:
    return {
        "name": name,
        "namespace": "default",
        "uid": "5d0b2a3c-0000-4000-8000-000000000000",
        "resourceVersion": "12345",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }


def objects(size: Size) -> list[tuple[Kind, bytes]]:
    """Everything that an API server would tell, an object at a time."""
    return [
        *((Kind.SERVICE, service(index)) for index in range(size.services)),
        *(
            (Kind.ENDPOINT_SLICE, endpoint_slice(index, size.endpoints))
            for index in range(size.services)
        ),
    ]
