"""An occurrence -> the request that creates or patches its event."""

from datetime import UTC, datetime

import msgspec

from kubeproxy.serve.events.series import Occurrence

CONTROLLER = "kube-proxy"
MOST_NOTE_BYTES = 1024
MOST_INSTANCE_BYTES = 128
JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"

_GROUP_VERSION = "events.k8s.io/v1"


class Request(msgspec.Struct, frozen=True):
    """One HTTP request with a body."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class _Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    kind: str
    api_version: str
    name: str
    namespace: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int
    last_observed_time: str


class _Event(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    kind: str
    api_version: str
    metadata: _Metadata
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: _Reference
    type: str
    note: str = ""
    series: _Series | None = None


class _Patch(msgspec.Struct, frozen=True):
    series: _Series


def create(occurrence: Occurrence, host: str) -> Request:
    """The request that makes the event."""
    event = occurrence.event
    subject = event.subject
    body = _Event(
        kind="Event",
        api_version=_GROUP_VERSION,
        metadata=_Metadata(name_of(occurrence), _namespace(occurrence)),
        event_time=timestamp(occurrence.first),
        reporting_controller=CONTROLLER,
        reporting_instance=_clipped(f"{CONTROLLER}-{host}", MOST_INSTANCE_BYTES),
        action=event.action,
        reason=event.reason,
        regarding=_Reference(subject.kind, "v1", subject.name, subject.namespace),
        type=event.severity.value,
        note=_clipped(event.note, MOST_NOTE_BYTES),
        series=_series(occurrence) if occurrence.count > 1 else None,
    )
    return Request("POST", _collection(occurrence), msgspec.json.encode(body))


def update(occurrence: Occurrence) -> Request:
    """The request that makes a series of an event that is there."""
    body = msgspec.json.encode(_Patch(_series(occurrence)))
    path = f"{_collection(occurrence)}/{name_of(occurrence)}"
    return Request("PATCH", path, body, STRATEGIC_MERGE)


def name_of(occurrence: Occurrence) -> str:
    """The event's name: that of its object, and when it first occurred."""
    return f"{occurrence.event.subject.name}.{occurrence.first:x}"


def timestamp(nanoseconds: int) -> str:
    """A time of the wall clock, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def _series(occurrence: Occurrence) -> _Series:
    return _Series(occurrence.count, timestamp(occurrence.last))


def _namespace(occurrence: Occurrence) -> str:
    return occurrence.event.subject.namespace or "default"


def _collection(occurrence: Occurrence) -> str:
    return f"/apis/{_GROUP_VERSION}/namespaces/{_namespace(occurrence)}/events"


def _clipped(text: str, most: int) -> str:
    """As much of a text as the API server takes: it refuses longer ones."""
    return text.encode()[:most].decode(errors="ignore")
