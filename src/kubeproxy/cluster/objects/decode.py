"""JSON bytes or YAML documents -> objects. The decoders are made once.

An object that does not decode raises `UndecodableObject` with its kind, its name where that can
be read, and the path of the offending field: the caller reports it, skips it and goes on.
"""

from collections.abc import Mapping

import msgspec

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.cluster.objects.endpointslice import EndpointSlice
from kubeproxy.cluster.objects.meta import Kind, ObjectKey, ObjectMeta
from kubeproxy.cluster.objects.nesting import UNREADABLE, decode_nested
from kubeproxy.cluster.objects.node import Node
from kubeproxy.cluster.objects.service import Service
from kubeproxy.cluster.objects.servicecidr import ServiceCIDR

KubeObject = Service | EndpointSlice | Node | ServiceCIDR

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

    def __init__(self, kind: Kind, key: ObjectKey | None, reason: str) -> None:
        name = str(key) if key is not None else "(its name cannot be read either)"
        super().__init__(f"{kind.value} {name} is skipped: {reason}")
        self.kind = kind
        self.key = key
        self.reason = reason


class _Named(msgspec.Struct):
    metadata: ObjectMeta


_decoders = {kind: msgspec.json.Decoder(type_) for kind, type_ in TYPE_OF_KIND.items()}
_name_decoder = msgspec.json.Decoder(_Named)


def decode(kind: Kind, data: bytes | msgspec.Raw) -> KubeObject:
    """The object of that kind in JSON bytes."""
    try:
        return _checked(kind, decode_nested(_decoders[kind], data))
    except UNREADABLE as error:
        raise UndecodableObject(kind, _name_in(data), str(error)) from error


def convert(kind: Kind, document: Mapping[str, object]) -> KubeObject:
    """The object of that kind in a document of plain dicts and lists, as YAML gives it."""
    try:
        return _checked(kind, msgspec.convert(document, TYPE_OF_KIND[kind]))
    except msgspec.MsgspecError as error:
        try:
            key = msgspec.convert(document, _Named).metadata.key
        except msgspec.MsgspecError:
            key = None
        raise UndecodableObject(kind, key, str(error)) from error


def _checked(kind: Kind, decoded: KubeObject) -> KubeObject:
    if not decoded.metadata.name:
        raise UndecodableObject(kind, None, "metadata.name is missing")
    return decoded


def _name_in(data: bytes | msgspec.Raw) -> ObjectKey | None:
    try:
        return decode_nested(_name_decoder, data).metadata.key
    except UNREADABLE:
        return None
