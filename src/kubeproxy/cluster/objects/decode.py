"""JSON bytes or YAML documents -> objects. The decoders are made once.

An object that cannot be decoded raises `UndecodableObject` with its kind, its name if that can be
decoded, and the path of the invalid field. The caller reports it and goes on without it.

The API server accepts objects that are nested thousands of levels deep, such as `managedFields`.
That exceeds the recursion limit of some versions of Python. The proxy reads nothing below a dozen
levels, so what is deeper is left out.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
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


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding raises for invalid bytes."""

Json = bytes | bytearray | msgspec.Raw
_Decoded = TypeVar("_Decoded")

_DEEPEST = 50
# Up to the next bracket that is not part of a string.
_TO_BRACKET = re.compile(
    rb"""(?: [^][{}"]++ | "[^"\\]*+(?:\\.[^"\\]*+)*+" )*+ [][{}]""", re.DOTALL | re.VERBOSE
)


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
METADATA = msgspec.json.Decoder(_MetadataOnly)
"""Decodes the metadata of an object, whatever the rest of it is."""


def decode(kind: Kind, data: Json) -> KubeObject:
    """The object of that kind in JSON bytes."""
    try:
        return _checked(kind, decode_nested(_decoders[kind], data))
    except UNREADABLE as error:
        try:
            metadata = decode_nested(METADATA, data).metadata
        except UNREADABLE:
            metadata = None
        raise UndecodableObject(kind, metadata, str(error)) from error


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


def decode_nested(decoder: msgspec.json.Decoder[_Decoded], data: Json) -> _Decoded:
    """The decoded value, however deep the rest is nested."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(without_depths(bytes(data)))


def without_depths(data: bytes, deepest: int = _DEEPEST) -> bytes:
    """The JSON with null for every object and list below so many levels."""
    kept: list[bytes] = []
    depth = begun = 0
    for found in _TO_BRACKET.finditer(data):
        end = found.end()
        if data[end - 1] in b"{[":
            if depth == deepest:
                kept += data[begun : end - 1], b"null"
            depth += 1
        else:
            depth -= 1
            if depth == deepest:
                begun = end
    if depth <= deepest:
        kept.append(data[begun:])
    return b"".join(kept)
