"""The protobuf of a list and of a watch.

A body is a magic number and an envelope (`runtime.Unknown`) around a message. In a watch an event
has its length before it, as four bytes, and its object is such a body again.
"""

import msgspec

from kubeproxy.cluster.client.status import Status, decode_status
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.objects.messages import UNREADABLE, decode_message, decode_metadata
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
from kubeproxy.cluster.objects.protobuf import Field, InvalidProtobuf, Message, text, unwrapped
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.cluster.watch.wire import InvalidData, Page, WatchEvent

LONGEST_EVENT = 16 * 1024 * 1024
"""Far above the 1.5 MiB that etcd stores in one object."""
_LENGTH = 4


class _RawExtension(msgspec.Struct, frozen=True):
    raw: bytes = b""


class _Event(msgspec.Struct):
    type: str = ""
    object: _RawExtension = _RawExtension()


class _ListMeta(msgspec.Struct, frozen=True):
    resource_version: str = ""
    continue_token: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: tuple[bytes, ...] = ()


_RAW = Message(_RawExtension, Field(1, "raw", bytes))
_EVENT = Message(_Event, Field(1, "type", text), Field(2, "object", _RAW.decode, keep_empty=True))
_LIST_META = Message(
    _ListMeta, Field(2, "resource_version", text), Field(3, "continue_token", text)
)
_LIST = Message(
    _List,
    Field(1, "metadata", _LIST_META.decode, keep_empty=True),
    Field(2, "items", bytes, repeated=True),
)


class LengthSplitter:
    """Splits a stream by the lengths in it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTH
        """Bytes until the next event, or its length, is complete."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are complete now."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size < self._wanted:
            return []
        data, events, start = b"".join(self._pieces), [], 0
        while len(data) - start >= _LENGTH:
            length = int.from_bytes(data[start : start + _LENGTH], "big")
            if length > LONGEST_EVENT:
                raise InvalidData(
                    f"an event of {length} bytes in a watch;"
                    " check that the server URL leads to a Kubernetes API server"
                )
            end = start + _LENGTH + length
            if end > len(data):
                break
            events.append(data[start + _LENGTH : end])
            start = end
        rest = data[start:]
        self._pieces, self._size = [rest], len(rest)
        known = len(rest) >= _LENGTH
        self._wanted = _LENGTH + (int.from_bytes(rest[:_LENGTH], "big") if known else 0)
        return events

    def finish(self) -> list[bytes]:
        """Nothing: an event that is not complete is not valid."""
        if self._size:
            raise InvalidData("the watch ended within an event")
        return []


class ProtobufEncoding:
    """Events and objects as upstream's clients want them."""

    def splitter(self) -> LengthSplitter:
        """For a new stream."""
        return LengthSplitter()

    def upsert(self, kind: Kind, data: bytes) -> KubeObject | None:
        """The object of an ADDED or MODIFIED event, where both are valid; None for all else."""
        try:
            found = _EVENT.decode(data)
            if found.type not in ("ADDED", "MODIFIED"):
                return None
            return decode_message(kind, unwrapped(found.object.raw))
        except (*UNREADABLE, UndecodableObject):
            return None

    def event(self, data: bytes) -> WatchEvent:
        """The event in a piece of a watch."""
        try:
            found = _EVENT.decode(data)
            if not found.type:
                raise InvalidProtobuf("it has no type")
            if found.type == "ERROR":
                return WatchEvent(found.type, msgspec.Raw(found.object.raw))
            return WatchEvent(found.type, msgspec.Raw(unwrapped(found.object.raw)))
        except UNREADABLE as error:
            raise InvalidData(f"not a watch event: {error}") from error

    def decode(self, kind: Kind, data: msgspec.Raw) -> KubeObject:
        """An object."""
        return decode_message(kind, bytes(data))

    def metadata(self, event: WatchEvent) -> ObjectMeta:
        """The metadata of the object of an event, whatever the rest of it is."""
        try:
            return decode_metadata(bytes(event.object))
        except UNREADABLE as error:
            raise InvalidData(f"an object without valid metadata: {error}") from error

    def status(self, event: WatchEvent) -> Status:
        """Why an ERROR event ends the watch."""
        return decode_status(event.object)

    def list_reader(self, kind: Kind) -> "ProtobufListReader":  # noqa: ARG002  # as in JSON
        """For a new list, or a page of it."""
        return ProtobufListReader()


class ProtobufListReader:
    """Reads a list at its end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> tuple[()]:
        """No object yet."""
        self._pieces.append(chunk)
        return ()

    def finish(self) -> Page:
        """All objects."""
        try:
            found = _LIST.decode(unwrapped(b"".join(self._pieces)))
        except UNREADABLE as error:
            raise InvalidData(f"not a list: {error}") from error
        if not found.metadata.resource_version:
            raise InvalidData("the list has no resourceVersion to watch from")
        items = [msgspec.Raw(item) for item in found.items]
        return Page(found.metadata.resource_version, found.metadata.continue_token, items)


PROTOBUF = ProtobufEncoding()
