"""Service (v1)."""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `spec.ports`. `targetPort` is not read: the slices know the ports."""

    name: str | None = None
    protocol: str | None = None
    port: int = 0
    node_port: int | None = None


class ClientIPConfig(msgspec.Struct, frozen=True, rename="camel"):
    """`sessionAffinityConfig.clientIP`."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(msgspec.Struct, frozen=True):
    """`spec.sessionAffinityConfig`."""

    client_ip: ClientIPConfig | None = msgspec.field(name="clientIP", default=None)


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the spec that decides about packets."""

    type: str | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    cluster_ips: tuple[str, ...] | None = msgspec.field(name="clusterIPs", default=None)
    ip_families: tuple[str, ...] | None = None
    ports: tuple[ServicePort, ...] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(name="externalIPs", default=None)
    load_balancer_source_ranges: tuple[str, ...] | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None


class LoadBalancerIngress(msgspec.Struct, frozen=True, rename="camel"):
    """One address that a load balancer gave the Service."""

    ip: str | None = None
    ip_mode: str | None = None


class LoadBalancerStatus(msgspec.Struct, frozen=True):
    """`status.loadBalancer`."""

    ingress: tuple[LoadBalancerIngress, ...] | None = None


class ServiceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`status`."""

    load_balancer: LoadBalancerStatus | None = None


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: ObjectMeta
    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None
