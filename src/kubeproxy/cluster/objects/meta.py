"""Metadata of all objects, and the kinds that the proxy watches."""

from enum import Enum

import msgspec

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
SERVICE_PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
ZONE_LABEL = "topology.kubernetes.io/zone"
TRIGGER_TIME_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


class Kind(Enum):
    """The kinds of objects that are watched."""

    SERVICE = "Service"
    ENDPOINT_SLICE = "EndpointSlice"
    NODE = "Node"
    SERVICE_CIDR = "ServiceCIDR"

    __hash__ = object.__hash__  # by identity, as they compare; that of Enum is slow


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """Namespace and name, which identify an object of its kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


ObjectId = tuple[Kind, ObjectKey]


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata`; managedFields and the rest are not read."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)
