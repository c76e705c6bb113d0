"""The cluster of the address plan as people keep it: in manifests, or as kubectl prints it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from world import Document, endpoint_slice, everywhere, kestrel

API_VERSION = {
    "EndpointSlice": "discovery.k8s.io/v1",
    "Node": "v1",
    "Pod": "v1",
    "Service": "v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}


def of_kind(kind: str, document: Mapping[str, object]) -> Document:
    """The document with what says what it is."""
    return {"apiVersion": API_VERSION[kind], "kind": kind, **document}


def pod(name: str, *ips: str, namespace: str = "shop", node: str = "kestrel") -> Document:
    status = {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]} if ips else {}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node},
        "status": status,
    }


def node_named(name: str, *ips: str) -> Document:
    addresses = [{"type": "InternalIP", "address": ip} for ip in ips]
    return {"metadata": {"name": name}, "status": {"addresses": addresses}}


SHOP = (
    of_kind("Node", kestrel()),
    of_kind(
        "Service", everywhere({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32100})
    ),
    of_kind("EndpointSlice", endpoint_slice("L1@z-east L2:unready@z-east R1@z-west R2:draining")),
    of_kind("Pod", pod("client", "10.64.3.50")),
    of_kind("ServiceCIDR", {"metadata": {"name": "all"}, "spec": {"cidrs": ["10.112.0.0/16"]}}),
)


def write(directory: Path, documents: Iterable[Document], name: str = "cluster.yaml") -> Path:
    """Manifests as people write them, one document after the other."""
    path = directory / name
    path.write_text(yaml.safe_dump_all(documents))
    return path


def write_list(path: Path, documents: Iterable[Document]) -> Path:
    """What `kubectl get -A -o yaml` prints of several objects."""
    items = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}
    path.write_text(yaml.safe_dump({**items, "items": list(documents)}))
    return path


def write_kubeconfig(path: Path, server: str) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": ""}}],
                "clusters": [{"name": "test", "cluster": {"server": server}}],
            }
        )
    )
    return path
