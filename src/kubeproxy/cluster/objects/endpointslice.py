"""EndpointSlice (discovery.k8s.io/v1).

What there is many of in a slice is kept from the garbage collector: it refers to nothing that
could refer back to it.
"""

import msgspec

from kubeproxy.cluster.objects.meta import ObjectMeta


class EndpointPort(msgspec.Struct, frozen=True, gc=False):
    """A port that every endpoint of the slice serves."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """The three conditions; what None means is the model's business."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Hint(msgspec.Struct, frozen=True, gc=False):
    """A zone or a node that should use the endpoint."""

    name: str = ""


class Hints(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Who should use the endpoint, according to the control plane."""

    for_zones: tuple[Hint, ...] | None = None
    for_nodes: tuple[Hint, ...] | None = None


class Endpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One endpoint; only its first address is used."""

    addresses: tuple[str, ...] | None = None
    conditions: Conditions | None = None
    node_name: str | None = None
    hints: Hints | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    """A slice of a Service's endpoints. The API server may send null for both lists."""

    metadata: ObjectMeta
    address_type: str = ""
    ports: tuple[EndpointPort, ...] | None = None
    endpoints: tuple[Endpoint, ...] | None = None
