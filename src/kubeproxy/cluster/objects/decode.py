"""JSON bytes or YAML documents -> objects. The decoders are made once.

An object that cannot be decoded raises `UndecodableObject` with its kind, its name if that can be
decoded, and the path of the invalid field. The caller reports it and goes on without it.
"""

from collections.abc import Mapping

import msgspec

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
from kubeproxy.cluster.objects.nesting import UNREADABLE, decode_nested
from kubeproxy.cluster.objects.types import EndpointSlice, KubeObject, Node, Service, ServiceCIDR

TYPE_OF_KIND: dict[Kind, type[KubeObject]] = {
    Kind.SERVICE: Service,
    Kind.ENDPOINT_SLICE: EndpointSlice,
    Kind.NODE: Node,
    Kind.SERVICE_CIDR: ServiceCIDR,
}

API_VERSION_OF_KIND = {
    Kind.SERVICE: "v1",
    Kind.ENDPOINT_SLICE: "discovery.k8s.io/v1",
    Kind.NODE: "v1",
    Kind.SERVICE_CIDR: "networking.k8s.io/v1",
}


class UndecodableObject(KubeProxyError):
    """An object whose fields are not of the API's types."""

    def __init__(self, kind: Kind, metadata: ObjectMeta | None, reason: str) -> None:
        self.kind = kind
        self.key = metadata.key if metadata is not None and metadata.name else None
        self.resource_version = metadata.resource_version if metadata is not None else ""
        self.reason = reason
        name = str(self.key) if self.key is not None else "(its name cannot be read either)"
        super().__init__(f"{kind.value} {name} is skipped: {reason}")


class _MetadataOnly(msgspec.Struct):
    metadata: ObjectMeta


_decoders = {kind: msgspec.json.Decoder(type_) for kind, type_ in TYPE_OF_KIND.items()}
_metadata_decoder = msgspec.json.Decoder(_MetadataOnly)


def decode(kind: Kind, data: bytes | msgspec.Raw) -> KubeObject:
    """The object of that kind in JSON bytes."""
    try:
        return _checked(kind, decode_nested(_decoders[kind], data))
    except UNREADABLE as error:
        try:
            metadata = decode_metadata(data)
        except UNREADABLE:
            metadata = None
        raise UndecodableObject(kind, metadata, str(error)) from error


def decode_metadata(data: bytes | msgspec.Raw) -> ObjectMeta:
    """The metadata of an object in JSON bytes, whatever the rest of it is."""
    return decode_nested(_metadata_decoder, data).metadata


def convert(kind: Kind, document: Mapping[str, object]) -> KubeObject:
    """The object of that kind in a document of plain dicts and lists, as YAML gives it."""
    try:
        return _checked(kind, msgspec.convert(document, TYPE_OF_KIND[kind]))
    except msgspec.MsgspecError as error:
        try:
            metadata = msgspec.convert(document, _MetadataOnly).metadata
        except msgspec.MsgspecError:
            metadata = None
        raise UndecodableObject(kind, metadata, str(error)) from error


def _checked(kind: Kind, decoded: KubeObject) -> KubeObject:
    if not decoded.metadata.name:
        raise UndecodableObject(kind, decoded.metadata, "metadata.name is missing")
    return decoded
