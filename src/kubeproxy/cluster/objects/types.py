"""The objects that are watched, with the fields that the proxy reads.

The API server may send null for every field that can be None here. Values of which there are many
are not tracked by the garbage collector (`gc=False`): they cannot be part of a cycle.
"""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta

# --- Service (v1) -----------------------------------------------------------------------------


class _ServicePortSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One of `spec.ports`. `targetPort` is not read: EndpointSlices have the port numbers."""

    name: str | None = None
    protocol: str | None = None
    port: int = 0
    node_port: int | None = None


class _ClientIPConfig(msgspec.Struct, frozen=True, rename="camel"):
    timeout_seconds: int | None = None


class _SessionAffinityConfig(msgspec.Struct, frozen=True):
    client_ip: _ClientIPConfig | None = msgspec.field(name="clientIP", default=None)


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec`."""

    type: str | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    cluster_ips: tuple[str, ...] | None = msgspec.field(name="clusterIPs", default=None)
    ip_families: tuple[str, ...] | None = None
    ports: tuple[_ServicePortSpec, ...] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(name="externalIPs", default=None)
    load_balancer_source_ranges: tuple[str, ...] | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    session_affinity: str | None = None
    session_affinity_config: _SessionAffinityConfig | None = None


class _LoadBalancerIngress(msgspec.Struct, frozen=True, rename="camel"):
    ip: str | None = None
    ip_mode: str | None = None


class _LoadBalancerStatus(msgspec.Struct, frozen=True):
    ingress: tuple[_LoadBalancerIngress, ...] | None = None


class _ServiceStatus(msgspec.Struct, frozen=True, rename="camel"):
    load_balancer: _LoadBalancerStatus | None = None


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: ObjectMeta
    spec: ServiceSpec | None = None
    status: _ServiceStatus | None = None


# --- ServiceCIDR (networking.k8s.io/v1) -------------------------------------------------------


class _ServiceCIDRSpec(msgspec.Struct, frozen=True):
    cidrs: tuple[str, ...] | None = None


class ServiceCIDR(msgspec.Struct, frozen=True):
    """Ranges of cluster IPs."""

    metadata: ObjectMeta
    spec: _ServiceCIDRSpec | None = None


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


class SliceEndpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of `endpoints`; only its first address is used."""

    addresses: tuple[str, ...] | None = None
    conditions: Conditions | None = None
    node_name: str | None = None
    hints: Hints | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    """Some of the endpoints of a Service."""

    metadata: ObjectMeta
    address_type: str = ""
    ports: tuple[EndpointPort, ...] | None = None
    endpoints: tuple[SliceEndpoint, ...] | None = None


# --- Node (v1) --------------------------------------------------------------------------------


class _NodeAddress(msgspec.Struct, frozen=True):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    addresses: tuple[_NodeAddress, ...] | None = None


class _Taint(msgspec.Struct, frozen=True):
    key: str = ""


class _NodeSpec(msgspec.Struct, frozen=True):
    pod_cidrs: tuple[str, ...] | None = msgspec.field(name="podCIDRs", default=None)
    taints: tuple[_Taint, ...] | None = None


class Node(msgspec.Struct, frozen=True):
    """A Node."""

    metadata: ObjectMeta
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


KubeObject = Service | EndpointSlice | Node | ServiceCIDR
