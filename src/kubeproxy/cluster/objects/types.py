"""The objects that are watched, with the fields that the proxy reads.

The API server may send null for every field that can be None here. Values of which there are many
are not tracked by the garbage collector (`gc=False`): they cannot be part of a cycle.
"""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta

# --- Service (v1) -----------------------------------------------------------------------------


class ServicePortSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One of `spec.ports`. `targetPort` is not read: EndpointSlices have the port numbers."""

    name: str | None = None
    protocol: str | None = None
    port: int = 0
    node_port: int | None = None


class ClientIPConfig(msgspec.Struct, frozen=True, rename="camel"):
    """`clientIP`."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(msgspec.Struct, frozen=True):
    """`sessionAffinityConfig`."""

    client_ip: ClientIPConfig | None = msgspec.field(name="clientIP", default=None)


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec`."""

    type: str | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    cluster_ips: tuple[str, ...] | None = msgspec.field(name="clusterIPs", default=None)
    ip_families: tuple[str, ...] | None = None
    ports: tuple[ServicePortSpec, ...] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(name="externalIPs", default=None)
    load_balancer_source_ranges: tuple[str, ...] | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    selector: dict[str, str] | None = None
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None


class LoadBalancerIngress(msgspec.Struct, frozen=True, rename="camel"):
    """One of `ingress`."""

    ip: str | None = None
    ip_mode: str | None = None


class LoadBalancerStatus(msgspec.Struct, frozen=True):
    """`loadBalancer`."""

    ingress: tuple[LoadBalancerIngress, ...] | None = None


class ServiceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`status` of a Service."""

    load_balancer: LoadBalancerStatus | None = None


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: ObjectMeta
    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None


# --- ServiceCIDR (networking.k8s.io/v1) -------------------------------------------------------


class ServiceCIDRSpec(msgspec.Struct, frozen=True):
    """`spec` of a ServiceCIDR."""

    cidrs: tuple[str, ...] | None = None


class ServiceCIDR(msgspec.Struct, frozen=True):
    """Ranges of cluster IPs."""

    metadata: ObjectMeta
    spec: ServiceCIDRSpec | None = None


# --- EndpointSlice (discovery.k8s.io/v1) ------------------------------------------------------


class EndpointPort(msgspec.Struct, frozen=True, gc=False):
    """One of `ports`, at which every endpoint of the slice serves."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """`conditions` of an endpoint."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Hint(msgspec.Struct, frozen=True, gc=False):
    """The name of a zone or node that should use the endpoint."""

    name: str = ""


class Hints(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`hints` of an endpoint."""

    for_zones: tuple[Hint, ...] | None = None
    for_nodes: tuple[Hint, ...] | None = None


class TargetRef(msgspec.Struct, frozen=True, gc=False):
    """`targetRef` of an endpoint: what kind of object it is."""

    kind: str | None = None


class SliceEndpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of `endpoints`; only its first address is used."""

    addresses: tuple[str, ...] | None = None
    conditions: Conditions | None = None
    node_name: str | None = None
    hints: Hints | None = None
    target_ref: TargetRef | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    """Some of the endpoints of a Service."""

    metadata: ObjectMeta
    address_type: str = ""
    ports: tuple[EndpointPort, ...] | None = None
    endpoints: tuple[SliceEndpoint, ...] | None = None


# --- Node (v1) --------------------------------------------------------------------------------


class NodeAddress(msgspec.Struct, frozen=True):
    """One of `addresses`."""

    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    """`status` of a Node."""

    addresses: tuple[NodeAddress, ...] | None = None


class Taint(msgspec.Struct, frozen=True):
    """One of `taints`."""

    key: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    """`spec` of a Node."""

    pod_cidrs: tuple[str, ...] | None = msgspec.field(name="podCIDRs", default=None)
    taints: tuple[Taint, ...] | None = None


class Node(msgspec.Struct, frozen=True):
    """A Node."""

    metadata: ObjectMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


KubeObject = Service | EndpointSlice | Node | ServiceCIDR
