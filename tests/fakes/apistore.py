"""The state of the test API server: objects, their versions and their history. No I/O, no clock.

One counter numbers every change of every resource, as etcd does. The history is kept until
`compact`, so that a watch can start in the past and a paged list can be continued at the version
at which it began. Each object is encoded once, when it is stored.
"""

from collections.abc import Callable, Mapping

import msgspec

from fakes.apierrors import ApiError, expired
from fakes.apiresources import Resource
from fakes.apiselectors import Requirement, meets

Body = dict[str, object]
Key = tuple[str, str]
"""Namespace and name; the namespace is empty for resources that have none."""

FIRST_VERSION = 1000
"""Not zero, because version 0 means "any" in requests."""


class Stored(msgspec.Struct, frozen=True):
    """An object as it was at one version."""

    key: Key
    version: int
    labels: dict[str, str]
    fields: dict[str, str]
    encoded: bytes
    """JSON without `kind` and `apiVersion`, which lists leave out of their items."""


class Change(msgspec.Struct, frozen=True):
    """What happened to an object at a version; None stands for "it did not exist"."""

    version: int
    resource: Resource
    before: Stored | None
    after: Stored | None


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a resource a list or a watch is about."""

    namespace: str | None = None
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """A part of a list."""

    version: int
    items: list[Stored]
    next_key: Key | None = None
    """The last key of this page when another one follows."""
    remaining: int = 0
    is_continued: bool = False
    """Whether other pages came before."""


def selects(selection: Selection, stored: Stored | None) -> bool:
    """Whether the object exists and is among the selected."""
    return (
        stored is not None
        and selection.namespace in (None, stored.key[0])
        and meets(selection.labels, stored.labels)
        and meets(selection.fields, stored.fields)
    )


def event_for(change: Change, selection: Selection) -> tuple[str, bytes] | None:
    """The watch event, type and object without its kind, that a selection gets for a change.

    An object that leaves the selection is deleted for those who watch it, with its last selected
    state and the version of the change; one that enters it is added.
    """
    was, is_ = selects(selection, change.before), selects(selection, change.after)
    if is_ and change.after is not None:
        return ("MODIFIED" if was else "ADDED"), change.after.encoded
    if was and change.before is not None:
        return "DELETED", _at_version(change.before.encoded, change.version)
    return None


def whole(resource: Resource, encoded: bytes) -> bytes:
    """The JSON of an object with its kind and apiVersion."""
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + encoded[1:]


def _at_version(encoded: bytes, version: int) -> bytes:
    body = msgspec.json.decode(encoded, type=Body)
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    metadata["resourceVersion"] = str(version)
    return msgspec.json.encode(body)


def _field(body: Body, path: str) -> str:
    value: object = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


class Store:
    """All objects. `stamp` gives the text of the present time, for creation timestamps."""

    def __init__(self, stamp: Callable[[], str]) -> None:
        self.version = FIRST_VERSION
        self.compacted = 0
        """Versions below this one have no history any more."""
        self._stamp = stamp
        self._objects: dict[Resource, dict[Key, Stored]] = {}
        self._history: list[Change] = []
        self._last: dict[Resource, int] = {}

    def get(self, resource: Resource, key: Key) -> Stored | None:
        """The object as it is now."""
        return self._objects.get(resource, {}).get(key)

    def put(self, resource: Resource, body: Body) -> Change:
        """Create or replace an object; the body is not kept."""
        self.version += 1
        key = key_of(resource, body)
        before = self.get(resource, key)
        after = self._stored(resource, key, body, before)
        self._objects.setdefault(resource, {})[key] = after
        return self._record(resource, before, after)

    def delete(self, resource: Resource, key: Key) -> Change:
        """Remove an object, which must exist."""
        before = self.get(resource, key)
        if before is None:
            raise ApiError(404, f'{resource.plural} "{key[1]}" not found')
        self.version += 1
        del self._objects[resource][key]
        return self._record(resource, before, None)

    def last_change(self, resource: Resource) -> int:
        """The version at which an object of a resource last changed; 0 if none ever did."""
        return self._last.get(resource, 0)

    def compact(self) -> None:
        """Forget all history: what is older than now has expired from here on."""
        self.compacted = self.version
        self._history.clear()

    def changes_since(self, resource: Resource, version: int) -> list[Change]:
        """What happened to a resource after a version; refused when that is forgotten."""
        if version < self.compacted:
            raise expired(version, self.compacted)
        return [c for c in self._history if c.version > version and c.resource == resource]

    def list(
        self,
        resource: Resource,
        selection: Selection,
        *,
        version: int | None = None,
        after: Key | None = None,
        limit: int = 0,
    ) -> Page:
        """The selected objects in order of their keys: at a version, behind a key, so many."""
        objects = self._objects_at(resource, self.version if version is None else version)
        items = [objects[key] for key in sorted(objects) if after is None or key > after]
        items = [stored for stored in items if selects(selection, stored)]
        at = self.version if version is None else version
        continued = after is not None
        if not limit or len(items) <= limit:
            return Page(at, items, is_continued=continued)
        return Page(at, items[:limit], items[limit - 1].key, len(items) - limit, continued)

    def _objects_at(self, resource: Resource, version: int) -> dict[Key, Stored]:
        objects = self._objects.get(resource, {})
        changes = self.changes_since(resource, version)
        if not changes:
            return objects
        past = dict(objects)
        for change in reversed(changes):
            if change.before is not None:
                past[change.before.key] = change.before
            elif change.after is not None:
                del past[change.after.key]
        return past

    def _record(self, resource: Resource, before: Stored | None, after: Stored | None) -> Change:
        change = Change(self.version, resource, before, after)
        self._history.append(change)
        self._last[resource] = self.version
        return change

    def _stored(self, resource: Resource, key: Key, body: Body, before: Stored | None) -> Stored:
        given = body.get("metadata")
        metadata: Body = dict(given) if isinstance(given, Mapping) else {}
        metadata |= self._identity(metadata, before)
        metadata["resourceVersion"] = str(self.version)
        if resource.namespaced:
            metadata["namespace"] = key[0]
        rest = {k: v for k, v in body.items() if k not in ("kind", "apiVersion", "metadata")}
        labels = metadata.get("labels")
        selectable = ("metadata.name", "metadata.namespace", *resource.fields)
        complete: Body = {"metadata": metadata, **rest}
        return Stored(
            key=key,
            version=self.version,
            labels=dict(labels) if isinstance(labels, Mapping) else {},
            fields={path: _field(complete, path) for path in selectable},
            encoded=msgspec.json.encode(complete),
        )

    def _identity(self, metadata: Body, before: Stored | None) -> Body:
        """What an object keeps for its life, whatever a writer sends."""
        if before is None:
            fresh = {"uid": f"00000000-0000-4000-8000-{self.version:012x}"}
            return fresh | {
                "creationTimestamp": metadata.get("creationTimestamp") or self._stamp()
            }
        kept = msgspec.json.decode(before.encoded, type=dict[str, msgspec.Raw])["metadata"]
        known = msgspec.json.decode(kept, type=Body)
        return {name: known[name] for name in ("uid", "creationTimestamp")}


def key_of(resource: Resource, body: Body) -> Key:
    """Namespace and name of a body; a namespaced object without a namespace is in `default`."""
    name = _field(body, "metadata.name")
    if not name:
        raise ApiError(422, f"{resource.kind} is invalid: metadata.name: Required value")
    return (_field(body, "metadata.namespace") or "default" if resource.namespaced else "", name)


def decode_body(resource: Resource, stored: Stored) -> Body:
    """A fresh, complete copy of a stored object."""
    return msgspec.json.decode(whole(resource, stored.encoded), type=Body)
