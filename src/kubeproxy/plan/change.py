"""A change, as people write it down, carried out on a cluster.

What the API server fills in is taken over from the Service that is there: the cluster IP, node
ports, the addresses of load balancers. A new one gets a free cluster IP.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.manifests.objects import ManifestObject, is_selected
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.objects.meta import Kind, ObjectId, ObjectKey
from kubeproxy.cluster.objects.types import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePortSpec,
    ServiceSpec,
    ServiceStatus,
)
from kubeproxy.plan.probes import free_address

_LATEST: Final = "9999-12-31T23:59:59Z"
"""When a new Service is created: after all others, so that it takes no address from them."""
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})
_NAMES: Final = {
    **dict.fromkeys(("service", "services", "svc"), Kind.SERVICE),
    **dict.fromkeys(("endpointslice", "endpointslices", "slice"), Kind.ENDPOINT_SLICE),
    **dict.fromkeys(("servicecidr", "servicecidrs"), Kind.SERVICE_CIDR),
}

Ports = Mapping[Family, Sequence[ServicePort]]


def to_delete(text: str) -> ObjectId:
    """The object that `KIND/[NAMESPACE/]NAME` names."""
    kind, _, name = text.partition("/")
    found = _NAMES.get(kind.lower())
    parts = name.split("/")
    most = 1 if found is Kind.SERVICE_CIDR else 2
    if found is None or not all(parts) or len(parts) > most:
        raise FieldError(
            "delete",
            text,
            "must be such as service/NAMESPACE/NAME or endpointslice/NAMESPACE/NAME",
        )
    if found is Kind.SERVICE_CIDR:
        return found, ObjectKey("", name)
    namespace, name = parts if len(parts) == 2 else ("default", name)
    return found, ObjectKey(namespace, name)


def carry_out(
    cluster: Cluster, deleted: Iterable[ObjectId], objects: Iterable[ManifestObject]
) -> Iterator[str]:
    """Delete objects, then add or change others; yields remarks on what had to be assumed."""
    for kind, key in deleted:
        if not cluster.knows(kind, key):
            raise FieldError("delete", f"{kind.value} {key}", "there is no such object")
        cluster.delete(kind, key)
    for placed in objects:
        kind, obj, key = placed.kind, placed.object, placed.object.metadata.key
        if kind is Kind.NODE and key.name != cluster.node_name:
            continue
        if not is_selected(obj, cluster.node_name):
            cluster.delete(kind, key)
            continue
        if isinstance(obj, Service):
            obj, remarks = completed(obj, cluster)
            yield from (f"Service {key}: {remark}" for remark in remarks)
        cluster.upsert(kind, obj)
        found = cluster.problems.get((kind, key), ())
        yield from (f"{kind.value} {key}: {problem.text}" for problem in found)


def completed(service: Service, cluster: Cluster) -> tuple[Service, list[str]]:
    """A Service with what the API server would fill in, and what was assumed."""
    spec = service.spec
    if spec is None or spec.type == "ExternalName":
        return service, []
    key = service.metadata.key
    known = {family: cluster.service_ports(family, key) for family in Family}
    known = {family: ports for family, ports in known.items() if ports}
    remarks: list[str] = []
    spec = _with_cluster_ip(spec, known, cluster, remarks)
    spec = _with_node_ports(spec, known, remarks)
    first = next((ports[0] for ports in known.values()), None)
    created = service.metadata.creation_timestamp or (first.created if first else _LATEST)
    metadata = replace(service.metadata, creation_timestamp=created)
    if first and spec.health_check_node_port is None:
        spec = replace(spec, health_check_node_port=first.health_check_port or None)
    return Service(metadata, spec, _status(service, spec, known)), remarks


def _with_cluster_ip(
    spec: ServiceSpec, known: Ports, cluster: Cluster, remarks: list[str]
) -> ServiceSpec:
    if spec.cluster_ip:
        return spec
    wanted = [family for family in Family if family.value in (spec.ip_families or ())]
    if known:
        ips = {family: ports[0].cluster_ip for family, ports in known.items()}
        ips = {family: ips[family] for family in wanted or ips if family in ips}
    else:
        ips = _free(cluster, wanted)
        if ips:
            given = " and ".join(ips.values())
            remarks.append(f"the API server will give it a cluster IP: {given} stands for it here")
    if not ips:
        return spec
    texts = tuple(ips.values())
    families = tuple(family.value for family in ips)
    return replace(spec, cluster_ip=texts[0], cluster_ips=texts, ip_families=families)


def _free(cluster: Cluster, wanted: Sequence[Family]) -> dict[Family, str]:
    """A cluster IP that no Service has, in each of the wanted families, else in the first."""
    found: dict[Family, str] = {}
    for family in wanted or Family:
        used = frozenset(
            port.cluster_ip
            for service in cluster.services(family)
            for port in cluster.service_ports(family, service)
        )
        for cidr in cluster.service_cidrs(family):
            address = free_address(cidr, used)
            if address and (wanted or not found):
                found.setdefault(family, address)
    return found


def _with_node_ports(spec: ServiceSpec, known: Ports, remarks: list[str]) -> ServiceSpec:
    """The same port and protocol keeps its node port."""
    if spec.type not in _WITH_NODE_PORTS:
        return spec
    given: dict[tuple[Protocol | None, int], int] = {
        (port.protocol, port.port): port.node_port for ports in known.values() for port in ports
    }
    ports = []
    for each in spec.ports or ():
        number = each.node_port or given.get((_protocol(each), each.port), 0)
        if not number:
            remarks.append(
                f"the API server will give port {each.port} a node port, which is not in this plan"
            )
        ports.append(replace(each, node_port=number or None))
    return replace(spec, ports=tuple(ports))


def _protocol(port: ServicePortSpec) -> Protocol | None:
    return Protocol.__members__.get(port.protocol or Protocol.TCP.name)


def _status(service: Service, spec: ServiceSpec, known: Ports) -> ServiceStatus | None:
    """A load balancer keeps its addresses, unless others are given."""
    given = service.status.load_balancer if service.status else None
    if spec.type != "LoadBalancer" or (given and given.ingress):
        return service.status
    ips = dict.fromkeys(
        ip for ports in known.values() for port in ports for ip in port.load_balancer_ips
    )
    return ServiceStatus(LoadBalancerStatus(tuple(LoadBalancerIngress(ip) for ip in ips)))
