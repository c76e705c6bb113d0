"""The bytes of a list and of a watch: events and pages. The objects inside stay bytes.

One invalid object must not spoil the others, and a list of thousands must not be in memory twice.
So the envelope is decoded first, and each object by itself. `Encoding` is what JSON, which is in
here, and protobuf (`protobuf_wire`) have in common.
"""

from collections.abc import Sequence
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from kubeproxy.base.errors import ApiServerError
from kubeproxy.cluster.client.status import Status, decode_status
from kubeproxy.cluster.objects.decode import (
    METADATA,
    TYPE_OF_KIND,
    UNREADABLE,
    Json,
    decode,
    decode_nested,
)
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
from kubeproxy.cluster.objects.types import KubeObject

LONGEST_LINE = 16 * 1024 * 1024
"""Far above the 1.5 MiB that etcd stores in one object."""

_Object = TypeVar("_Object", bound=KubeObject)
_Decoded = TypeVar("_Decoded")


class InvalidData(ApiServerError):
    """Bytes that no API server sends."""


class Splitter(Protocol):
    """Cuts a stream into events."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are complete now."""
        ...

    def finish(self) -> list[bytes]:
        """What is left at the end of the stream."""
        ...


class WatchEvent(msgspec.Struct):
    """One event of a watch; its object is still encoded."""

    type: str
    object: msgspec.Raw


class Page(msgspec.Struct, frozen=True):
    """A list, or a page of it, and the token of the next one; its objects are still encoded."""

    version: str
    token: str
    items: Sequence[msgspec.Raw]


class ListReader(Protocol):
    """Takes the body of a list in pieces."""

    def feed(self, chunk: bytes) -> Sequence[KubeObject | msgspec.Raw]:
        """Objects that are complete now; still encoded if one of them may be invalid."""
        ...

    def finish(self) -> Page:
        """The rest of the objects, at the end of the body. Raises `InvalidData`."""
        ...


class Encoding(Protocol):
    """How the server encodes what it sends."""

    def splitter(self) -> Splitter:
        """For a new stream."""
        ...

    def upsert(self, kind: Kind, data: bytes) -> KubeObject | None:
        """The object of an ADDED or MODIFIED event, where both are valid; None for all else."""
        ...

    def event(self, data: bytes) -> WatchEvent:
        """The event in a piece of a stream."""
        ...

    def decode(self, kind: Kind, data: msgspec.Raw) -> KubeObject:
        """An object. Raises `UndecodableObject`."""
        ...

    def metadata(self, event: WatchEvent) -> ObjectMeta:
        """The metadata of the object of an event, whatever the rest of it is."""
        ...

    def status(self, event: WatchEvent) -> Status:
        """Why an ERROR event ends the watch."""
        ...

    def list_reader(self, kind: Kind) -> ListReader:
        """For a new list, or a page of it."""
        ...


class LineSplitter:
    """Splits a stream into lines.

    Every byte is copied at most twice, whatever the size of the chunks: the pieces of an
    incomplete line are kept in a list and joined once.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends; blank lines are left out."""
        first, *rest = chunk.split(b"\n")
        self._pieces.append(first)
        self._size += len(first)
        if self._size > LONGEST_LINE:
            raise InvalidData(
                f"a line of more than {LONGEST_LINE} bytes in a watch;"
                " check that the server URL leads to a Kubernetes API server"
            )
        if not rest:
            return []
        *middle, last = rest
        lines = [b"".join(self._pieces), *middle]
        self._pieces, self._size = [last], len(last)
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """A last line without its end, if there is one."""
        rest = b"".join(self._pieces).strip()
        self._pieces, self._size = [], 0
        return [rest] if rest else []


class _ListMeta(msgspec.Struct):
    """The version of a list, and the token of its next page."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_token: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct):
    """A list, or a page of it. The API server may send null for no items."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _UpsertEvent(msgspec.Struct, Generic[_Object]):
    type: Literal["ADDED", "MODIFIED"]
    object: _Object


_event_decoder = msgspec.json.Decoder(WatchEvent)
_upsert_decoders: dict[Kind, msgspec.json.Decoder[_UpsertEvent[KubeObject]]] = {
    kind: msgspec.json.Decoder(_UpsertEvent[of])  # type: ignore[valid-type]  # a value of a table
    for kind, of in TYPE_OF_KIND.items()
}
_page_decoder = msgspec.json.Decoder(_ListPage)
_items_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_array_decoders: dict[Kind, msgspec.json.Decoder[list[KubeObject]]] = {
    kind: msgspec.json.Decoder(list[of])  # type: ignore[valid-type]  # a value of a table
    for kind, of in TYPE_OF_KIND.items()
}
_ITEMS = b'"items":['
_BETWEEN = b'},{"metadata":{'
"""As the API server writes it between two objects of a list."""
_LONGEST_HEAD = 16 * 1024


def _decode(decoder: msgspec.json.Decoder[_Decoded], data: Json, otherwise: str) -> _Decoded:
    try:
        return decode_nested(decoder, data)
    except UNREADABLE as error:
        raise InvalidData(f"{otherwise}: {error}") from error


class JsonListReader:
    """Takes a list in pieces, as the API server writes it: the items last.

    Tens of megabytes of JSON are not in memory at once: what has arrived is cut before the last
    object that seems to begin in it. If it can't be cut there, or looks otherwise, it is read at
    its end.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._pieces: list[bytes] = []
        self._metadata: _ListMeta | None = None
        self._in_pieces = True

    def feed(self, chunk: bytes) -> Sequence[KubeObject | msgspec.Raw]:
        """Objects that are complete now; still encoded if one of them may be invalid."""
        if self._metadata is None and self._in_pieces:
            chunk = self._without_head(chunk)
        cut = chunk.rfind(_BETWEEN) if self._metadata is not None and self._in_pieces else -1
        if cut < 0:
            self._pieces.append(chunk)
            return ()
        complete, rest = memoryview(chunk)[: cut + 1], chunk[cut + 2 :]
        try:
            found = self._objects(b"".join([b"[", *self._pieces, complete, b"]"]))
        except UNREADABLE:
            self._in_pieces = False
            self._pieces.append(chunk)
            return ()
        self._pieces = [rest]
        return found

    def _objects(self, array: bytes) -> Sequence[KubeObject | msgspec.Raw]:
        """All objects at once, which takes half the time, unless one is invalid."""
        try:
            found = decode_nested(_array_decoders[self._kind], array)
        except UNREADABLE:
            return decode_nested(_items_decoder, array)
        if all(each.metadata.name for each in found):
            return found
        return decode_nested(_items_decoder, array)

    def _without_head(self, chunk: bytes) -> bytes:
        """What follows the head of the list, if that is complete and has a version."""
        data = b"".join([*self._pieces, chunk])
        self._pieces = []
        at = data.find(_ITEMS)
        if at < 0:
            self._in_pieces = len(data) <= _LONGEST_HEAD
            return data
        try:
            found = decode_nested(_page_decoder, data[:at] + _ITEMS + b"]}").metadata
        except UNREADABLE:
            found = _ListMeta()
        self._in_pieces = bool(found.resource_version)
        if not self._in_pieces:
            return data
        self._metadata = found
        return data[at + len(_ITEMS) :]

    def finish(self) -> Page:
        """The rest of the objects."""
        body = b"".join(self._pieces)
        if self._metadata is not None:
            body = b'{"metadata":{},' + _ITEMS + body
        page = _decode(_page_decoder, body, "not a list")
        metadata = self._metadata or page.metadata
        if not metadata.resource_version:
            raise InvalidData("the list has no resourceVersion to watch from")
        return Page(metadata.resource_version, metadata.continue_token, page.items or ())


class JsonEncoding:
    """An event a line."""

    def splitter(self) -> LineSplitter:
        """For a new stream."""
        return LineSplitter()

    def upsert(self, kind: Kind, data: bytes) -> KubeObject | None:
        """The object of an ADDED or MODIFIED event, where both are valid.

        None for all else: `event` finds out what it is. Nearly all lines are of these types, and
        decoding a line once instead of twice saves a tenth of the cost of an initial list.
        """
        try:
            found = decode_nested(_upsert_decoders[kind], data).object
        except UNREADABLE:
            return None
        return found if found.metadata.name else None

    def event(self, data: bytes) -> WatchEvent:
        """The event in a line of a watch."""
        return _decode(_event_decoder, data, "not a watch event")

    def decode(self, kind: Kind, data: msgspec.Raw) -> KubeObject:
        """An object."""
        return decode(kind, data)

    def metadata(self, event: WatchEvent) -> ObjectMeta:
        """The metadata of the object of an event, whatever the rest of it is."""
        return _decode(METADATA, event.object, "an object without valid metadata").metadata

    def status(self, event: WatchEvent) -> Status:
        """Why an ERROR event ends the watch."""
        return decode_status(event.object)

    def list_reader(self, kind: Kind) -> JsonListReader:
        """For a new list, or a page of it."""
        return JsonListReader(kind)


JSON = JsonEncoding()
