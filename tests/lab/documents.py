"""Kubernetes documents for the lab: those of `world`, made dual-stack and complete."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from kubeproxy.base.inet import Family
from lab.plan import CLUSTER_CIDR, HOSTS, POD_CIDR, SERVICE_CIDR, stems
from world import NODE_ADDRESSES, Document
from world import kestrel as kestrel_ipv4

API_VERSION = {
    "Service": "v1",
    "Node": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}
_TWINS = {
    **{host.ipv4: host.ipv6 for host in HOSTS.values()},
    **dict(zip(NODE_ADDRESSES[Family.IPV4], NODE_ADDRESSES[Family.IPV6], strict=True)),
    CLUSTER_CIDR[Family.IPV4]: CLUSTER_CIDR[Family.IPV6],
    POD_CIDR[Family.IPV4]: POD_CIDR[Family.IPV6],
    SERVICE_CIDR[Family.IPV4]: SERVICE_CIDR[Family.IPV6],
    "10.64.3.14": "fd40::14",
    "192.0.2.0/25": "2001:db8:ff::/121",
    "198.51.100.0/24": "2001:db8:aa::/64",
    "0.0.0.0/0": "::/0",
}
_LISTS = ("externalIPs", "loadBalancerSourceRanges")
"""The fields of a Service that hold addresses of both families."""


def twin(text: str) -> str:
    """The IPv6 address or range that stands where the IPv4 one does."""
    for ipv4, ipv6 in stems():
        if text.startswith(ipv4) and "/" not in text:
            return text.replace(ipv4, ipv6)
    return _TWINS[text.strip()]


def in_family(text: str, family: Family) -> str:
    """The address of the plan, or its twin."""
    return text if family is Family.IPV4 else twin(text)


def kind_of(document: Mapping[str, object]) -> str:
    """The kind of a document that may not say it."""
    if "kind" in document:
        return str(document["kind"])
    return "EndpointSlice" if "addressType" in document else "Service"


def complete(document: Mapping[str, object]) -> Document:
    """The document as the API server would give it, with kind and version."""
    kind = kind_of(document)
    return {"apiVersion": API_VERSION[kind], "kind": kind, **document}


def kestrel() -> Document:
    """Our Node, with pods of both families."""
    spec: Document = {"podCIDRs": [POD_CIDR[family] for family in Family]}
    return {**kestrel_ipv4(), "kind": "Node", "spec": spec}


def service_cidr() -> Document:
    """The ranges of cluster IPs."""
    spec: Document = {"cidrs": [SERVICE_CIDR[family] for family in Family]}
    return {"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": spec}


def dual_stack(documents: Iterable[Mapping[str, object]]) -> list[Document]:
    """IPv4 Services and slices, with the IPv6 twins of all that they say."""
    result: list[Document] = []
    for document in documents:
        if kind_of(document) == "Service":
            result.append(_dual_service(document))
        else:
            result += [complete(document), _twin_slice(document)]
    return result


def _dual_service(service: Mapping[str, object]) -> Document:
    spec = cast("Document", service["spec"])
    address = str(spec["clusterIP"])
    both = {
        name: _with_twins(cast("Sequence[str]", spec[name])) for name in _LISTS if name in spec
    }
    ingress = cast("Mapping[str, Mapping[str, list[Document]]]", service.get("status", {}))
    balancers = ingress.get("loadBalancer", {}).get("ingress", [])
    twins: list[Document] = [{**entry, "ip": twin(str(entry["ip"]))} for entry in balancers]
    families = [family.value for family in Family]
    dual = {"clusterIPs": [address, twin(address)], "ipFamilies": families, **both}
    return complete(
        {
            **service,
            "spec": {**spec, **dual},
            "status": {"loadBalancer": {"ingress": [*balancers, *twins]}},
        }
    )


def _with_twins(texts: Sequence[str]) -> list[str]:
    return [*texts, *(twin(text) for text in texts if ":" not in text)]


def _twin_slice(slice_: Mapping[str, object]) -> Document:
    metadata = cast("Document", slice_["metadata"])
    endpoints = cast("list[Mapping[str, list[str]]]", slice_["endpoints"] or [])
    return complete(
        {
            **slice_,
            "metadata": {**metadata, "name": f"{metadata['name']}-ipv6"},
            "addressType": "IPv6",
            "endpoints": [
                {**endpoint, "addresses": [twin(a) for a in endpoint["addresses"]]}
                for endpoint in endpoints
            ],
        }
    )
