"""ServiceCIDR (networking.k8s.io/v1)."""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta


class ServiceCIDRSpec(msgspec.Struct, frozen=True):
    """`spec`."""

    cidrs: tuple[str, ...] | None = None


class ServiceCIDR(msgspec.Struct, frozen=True):
    """The ranges that cluster IPs are taken from."""

    metadata: ObjectMeta
    spec: ServiceCIDRSpec | None = None
