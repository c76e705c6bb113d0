"""The envelopes of a list and of a watch event; the objects inside stay bytes.

One bad object must not spoil the others, and a list of thousands must not exist twice in memory:
so the envelope is decoded first and each object on its own, by whoever wants it.
"""

from typing import Generic, Literal, TypeVar

import msgspec

from kubeproxy.base.errors import ApiServerError
from kubeproxy.cluster.objects.decode import TYPE_OF_KIND, KubeObject
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
from kubeproxy.cluster.objects.nesting import UNREADABLE, decode_nested

_Object = TypeVar("_Object", bound=KubeObject)


class NotTheProtocol(ApiServerError):
    """Bytes that no API server sends."""


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ListMeta(msgspec.Struct):
    """Where the list stands, and how to get its next page."""

    version: str = msgspec.field(name="resourceVersion", default="")
    token: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct):
    """A list, or a page of it. The API server may send null for no items."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    metadata: ObjectMeta


class _Told(msgspec.Struct, Generic[_Object]):
    type: Literal["ADDED", "MODIFIED"]
    object: _Object


_event_decoder = msgspec.json.Decoder(WatchEvent)
_told_decoders: dict[Kind, msgspec.json.Decoder[_Told[KubeObject]]] = {
    kind: msgspec.json.Decoder(_Told[of])  # type: ignore[valid-type]  # a value of a table
    for kind, of in TYPE_OF_KIND.items()
}
_page_decoder = msgspec.json.Decoder(ListPage)
_name_decoder = msgspec.json.Decoder(_Named)


def decode_event(line: bytes) -> WatchEvent:
    """The event in a line of a watch."""
    try:
        return decode_nested(_event_decoder, line)
    except UNREADABLE as error:
        raise NotTheProtocol(f"not a watch event: {error}") from error


def decode_told(kind: Kind, line: bytes) -> KubeObject | None:
    """The object that a line of a watch tells of, where all is in order with both.

    For all else, None: `decode_event` says what it is. Nearly all lines are of this kind, and
    reading a line once instead of twice is a tenth of what it costs to take a cluster in.
    """
    try:
        found = decode_nested(_told_decoders[kind], line).object
    except UNREADABLE:
        return None
    return found if found.metadata.name else None


def decode_page(body: bytes | bytearray) -> ListPage:
    """The page in the body of a list."""
    try:
        page = decode_nested(_page_decoder, body)
    except UNREADABLE as error:
        raise NotTheProtocol(f"not a list: {error}") from error
    if not page.metadata.version:
        raise NotTheProtocol("the list has no resourceVersion to watch from")
    return page


def decode_metadata(raw: msgspec.Raw) -> ObjectMeta:
    """The metadata of an object, whatever the rest of it is."""
    try:
        return decode_nested(_name_decoder, raw).metadata
    except UNREADABLE as error:
        raise NotTheProtocol(f"an object without readable metadata: {error}") from error


def version_in(raw: msgspec.Raw) -> str:
    """The resource version of an object, or nothing when that cannot be read either."""
    try:
        return decode_metadata(raw).resource_version
    except NotTheProtocol:
        return ""
