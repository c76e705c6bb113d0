"""The example cluster: a copy of `examples/`, what is in it, and the changes made to it."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import yaml

from kubeproxy.base.inet import Protocol
from kubeproxy.cluster.objects.types import Service
from lab.plan import HOSTS

EXAMPLES = Path(__file__).parents[1] / "examples"
NODE_ADDRESS = HOSTS["H"].ipv4
DRAINING = {"ready": False, "serving": True, "terminating": True}
"""The conditions of a pod that is shut down: it still answers, and should get nothing new."""

Document = dict[str, object]


class _Meta(msgspec.Struct, frozen=True):
    namespace: str
    labels: dict[str, str]


class _Target(msgspec.Struct, frozen=True):
    name: str


class _Endpoint(msgspec.Struct, frozen=True, rename="camel"):
    addresses: tuple[str, ...]
    node_name: str
    target_ref: _Target


class _Slice(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    address_type: str
    endpoints: tuple[_Endpoint, ...]


class Pod(msgspec.Struct, frozen=True):
    """An endpoint of a Service, by the name of its pod."""

    name: str
    address: str
    node: str


class Frontend(msgspec.Struct, frozen=True):
    """Where clients connect to: an IPv4 address and port of a Service."""

    service: str
    kind: str
    address: str
    port: int
    protocol: Protocol = Protocol.TCP

    def __str__(self) -> str:
        return f"{self.address}:{self.port}/{self.protocol.name}"


class Cluster:
    """The manifests that the proxy follows."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.copytree(EXAMPLES, directory)
        documents = [document for path in sorted(directory.iterdir()) for document in _read(path)]
        self._slices = [
            msgspec.convert(each, _Slice) for each in documents if each["kind"] == "EndpointSlice"
        ]
        services = [
            msgspec.convert(each, Service) for each in documents if each["kind"] == "Service"
        ]
        self.frontends = tuple(each for service in services for each in _frontends(service))

    def frontend(self, service: str, kind: str = "cluster IP") -> Frontend:
        """The frontend of a Service of that kind."""
        return next(f for f in self.frontends if (f.service, f.kind) == (service, kind))

    def pods(self, service: str) -> tuple[Pod, ...]:
        """The endpoints of a Service."""
        return tuple(
            Pod(endpoint.target_ref.name, endpoint.addresses[0], endpoint.node_name)
            for slice_ in self._slices
            if f"{slice_.metadata.namespace}/{_owner(slice_)}" == service
            if slice_.address_type == "IPv4"
            for endpoint in slice_.endpoints
        )

    def drain(self, file: str, pod: str) -> None:
        """Say in a manifest that a pod is shut down."""
        documents = _read(self.directory / file)
        for document in documents:
            for endpoint in _endpoints(document):
                if msgspec.convert(endpoint, _Endpoint).target_ref.name == pod:
                    endpoint["conditions"] = DRAINING
        self._save(file, documents)

    def remove(self, file: str, pod: str) -> None:
        """Say in a manifest that a pod is no more."""
        documents = _read(self.directory / file)
        for document in documents:
            if "endpoints" in document:
                document["endpoints"] = [
                    endpoint
                    for endpoint in _endpoints(document)
                    if msgspec.convert(endpoint, _Endpoint).target_ref.name != pod
                ]
        self._save(file, documents)

    def annotate(self, file: str, annotations: Mapping[str, str]) -> None:
        """Annotate the Services of a manifest."""
        documents = _read(self.directory / file)
        for document in documents:
            metadata = document["metadata"]
            assert isinstance(metadata, dict)
            if document["kind"] == "Service":
                metadata["annotations"] = dict(annotations)
        self._save(file, documents)

    def restore(self, file: str) -> None:
        """Have the manifest as it was."""
        self.write(file, (EXAMPLES / file).read_text())

    def add(self, file: str, documents: list[Document]) -> None:
        """One more manifest."""
        self.write(file, json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def _save(self, file: str, documents: list[Document]) -> None:
        self.write(file, yaml.safe_dump_all(documents, sort_keys=False))

    def write(self, file: str, text: str) -> None:
        """The whole file at once, as every careful writer of manifests does."""
        hidden = self.directory / f".{file}"
        hidden.write_text(text)
        hidden.rename(self.directory / file)


def _read(path: Path) -> list[Document]:
    with path.open() as file:
        return list(yaml.safe_load_all(file))


def _owner(slice_: _Slice) -> str:
    return slice_.metadata.labels["kubernetes.io/service-name"]


def _endpoints(document: Mapping[str, object]) -> list[Document]:
    found = document.get("endpoints", [])
    assert isinstance(found, list)
    return found


def _frontends(service: Service) -> Iterator[Frontend]:
    name, spec = str(service.metadata.key), service.spec
    assert spec is not None
    assert spec.cluster_ip is not None
    balancer = service.status.load_balancer if service.status else None
    for port in spec.ports or ():
        protocol = Protocol[port.protocol or "TCP"]
        yield Frontend(name, "cluster IP", spec.cluster_ip, port.port, protocol)
        for ingress in (balancer.ingress if balancer else None) or ():
            yield Frontend(name, "load balancer", ingress.ip or "", port.port, protocol)
        if port.node_port:
            yield Frontend(name, "node port", NODE_ADDRESS, port.node_port, protocol)


def many(count: int, pods: tuple[Pod, ...]) -> tuple[list[Document], list[Frontend]]:
    """So many more Services, each with an address of its own and these pods; their frontends."""
    documents: list[Document] = []
    frontends = []
    for number in range(count):
        name = f"tenant-{number}"
        address = f"10.112.{8 + number // 250}.{1 + number % 250}"
        frontends.append(Frontend(f"tenants/{name}", "cluster IP", address, 80))
        documents += [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"namespace": "tenants", "name": name},
                "spec": {
                    "clusterIP": address,
                    "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
                },
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "namespace": "tenants",
                    "name": f"{name}-1",
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                "endpoints": [{"addresses": [pod.address], "nodeName": pod.node} for pod in pods],
            },
        ]
    return documents, frontends
