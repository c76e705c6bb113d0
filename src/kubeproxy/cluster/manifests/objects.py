"""Documents -> objects, selected as the API server would select them.

No I/O. Services of another proxy and headless ones, slices of headless Services and, when our own
name is known, the Nodes of others are left out, as the selectors of `resources.py` do.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.cluster.events import Delete, Event, Reset, Synced, Upsert
from kubeproxy.cluster.manifests.documents import Body, BrokenManifest, Document
from kubeproxy.cluster.objects.decode import API_VERSION_OF_KIND, UndecodableObject, convert
from kubeproxy.cluster.objects.meta import (
    HEADLESS_LABEL,
    SERVICE_PROXY_NAME_LABEL,
    Kind,
    ObjectId,
    ObjectKey,
)
from kubeproxy.cluster.objects.types import EndpointSlice, KubeObject, Node, Service

_KIND_OF_DOCUMENT = {(version, kind.value): kind for kind, version in API_VERSION_OF_KIND.items()}
_NAMESPACED = (Kind.SERVICE, Kind.ENDPOINT_SLICE)


class ManifestObject(msgspec.Struct, frozen=True):
    """An object and its place."""

    kind: Kind
    object: KubeObject
    file: str
    line: int

    @property
    def identity(self) -> ObjectId:
        """What identifies the object among all."""
        return self.kind, self.object.metadata.key

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


class Duplicate(msgspec.Struct, frozen=True):
    """An object that is in two places; the later one is used."""

    kind: Kind
    key: ObjectKey
    used: str
    ignored: str


def decode_documents(
    documents: Iterable[Document], before: Iterable[ManifestObject] = ()
) -> tuple[list[ManifestObject], list[BrokenManifest]]:
    """The objects of the watched kinds among the documents, and what cannot be decoded.

    One that cannot be decoded is a problem of its own: the others are decoded, and its last state
    stays in use. If not even its name can be read, all objects of that kind that were there before
    stay.
    """
    objects: list[ManifestObject] = []
    problems: list[BrokenManifest] = []
    doubtful: set[ObjectId | Kind] = set()
    for document in documents:
        kind = _KIND_OF_DOCUMENT.get((document.api_version, document.kind))
        if kind is None:
            continue
        try:
            decoded = convert(kind, _with_namespace(kind, document.body))
        except UndecodableObject as error:
            name = f" {error.key}" if error.key is not None else ""
            reason = f"the {kind.value}{name} cannot be decoded: {error.reason}"
            problems.append(BrokenManifest(document.file, document.line, 1, reason))
            doubtful.add(kind if error.key is None else (kind, error.key))
        else:
            objects.append(ManifestObject(kind, decoded, document.file, document.line))
    good = {placed.identity for placed in objects}
    stay = [placed for placed in before if not doubtful.isdisjoint((placed.kind, placed.identity))]
    objects += [placed for placed in stay if placed.identity not in good]
    return objects, problems


def _with_namespace(kind: Kind, body: Body) -> Body:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return body  # rejected by the decoder
    namespace = (metadata.get("namespace") or "default") if kind in _NAMESPACED else ""
    return body | {"metadata": {**metadata, "namespace": namespace}}


def merge(
    found: Iterable[ManifestObject], node_name: str | None = None
) -> tuple[dict[ObjectId, KubeObject], list[Duplicate]]:
    """The selected objects, and those that are in two places; the last one is used."""
    latest: dict[ObjectId, ManifestObject] = {}
    duplicates: list[Duplicate] = []
    for placed in found:
        identity = placed.identity
        earlier = latest.get(identity)
        if earlier is not None:
            duplicates.append(Duplicate(*identity, used=placed.place, ignored=earlier.place))
        latest[identity] = placed
    objects = {
        identity: placed.object
        for identity, placed in latest.items()
        if is_selected(placed.object, node_name)
    }
    return objects, duplicates


def is_selected(obj: KubeObject, node_name: str | None) -> bool:
    """Whether the API server would send the object to us."""
    labels = obj.metadata.labels or {}
    match obj:
        case Service(spec=spec):
            headless = spec is not None and "None" in (spec.cluster_ip, *(spec.cluster_ips or ()))
            return SERVICE_PROXY_NAME_LABEL not in labels and not headless
        case EndpointSlice():
            return HEADLESS_LABEL not in labels
        case Node():
            return node_name in (None, obj.metadata.name)
        case _:
            return True


def first_events(objects: Mapping[ObjectId, KubeObject]) -> list[Event]:
    """The events of an initial list, kind by kind."""
    events: list[Event] = []
    for kind in Kind:
        upserts = [Upsert(kind, obj) for (of_kind, _), obj in objects.items() if of_kind is kind]
        events += [Reset(kind), *upserts, Synced(kind)]
    return events


def events_between(
    before: Mapping[ObjectId, KubeObject], after: Mapping[ObjectId, KubeObject]
) -> list[Event]:
    """What changed: first what is gone, so that what comes can take its place."""
    gone = [Delete(kind, key) for kind, key in before if (kind, key) not in after]
    new = [
        Upsert(kind, obj) for (kind, key), obj in after.items() if before.get((kind, key)) != obj
    ]
    return [*gone, *new]
