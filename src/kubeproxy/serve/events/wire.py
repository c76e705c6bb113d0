"""An occurrence -> the request that creates or patches its event."""

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from kubeproxy.serve.events.series import Occurrence

CONTROLLER = "kube-proxy"
MOST_NOTE_BYTES = 1024
MOST_INSTANCE_BYTES = 128
_JSON = "application/json"
_STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_GROUP_VERSION = "events.k8s.io/v1"


class EventRequest(NamedTuple):
    """One HTTP request with a body."""

    method: str
    path: str
    body: bytes
    content_type: str = _JSON


def create(occurrence: Occurrence, host: str) -> EventRequest:
    """The request that creates the event."""
    event, subject = occurrence.event, occurrence.event.subject
    regarding = {"kind": subject.kind, "apiVersion": "v1", "name": subject.name}
    if subject.namespace:
        regarding["namespace"] = subject.namespace
    body: dict[str, object] = {
        "kind": "Event",
        "apiVersion": _GROUP_VERSION,
        "metadata": {"name": name_of(occurrence), "namespace": _namespace(occurrence)},
        "eventTime": timestamp(occurrence.first),
        "reportingController": CONTROLLER,
        "reportingInstance": _clipped(f"{CONTROLLER}-{host}", MOST_INSTANCE_BYTES),
        "action": event.action,
        "reason": event.reason,
        "regarding": regarding,
        "type": event.severity.value,
        "note": _clipped(event.note, MOST_NOTE_BYTES),
    }
    if occurrence.count > 1:
        body |= _series(occurrence)
    return EventRequest("POST", _collection(occurrence), msgspec.json.encode(body))


def update(occurrence: Occurrence) -> EventRequest:
    """The request that makes a series of an event that is there."""
    path = f"{_collection(occurrence)}/{name_of(occurrence)}"
    body = msgspec.json.encode(_series(occurrence))
    return EventRequest("PATCH", path, body, _STRATEGIC_MERGE)


def name_of(occurrence: Occurrence) -> str:
    """The event's name: that of its object, and when it first occurred."""
    return f"{occurrence.event.subject.name}.{occurrence.first:x}"


def timestamp(nanoseconds: int) -> str:
    """A time of the wall clock, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def _series(occurrence: Occurrence) -> dict[str, object]:
    last = timestamp(occurrence.last)
    return {"series": {"count": occurrence.count, "lastObservedTime": last}}


def _namespace(occurrence: Occurrence) -> str:
    return occurrence.event.subject.namespace or "default"


def _collection(occurrence: Occurrence) -> str:
    return f"/apis/{_GROUP_VERSION}/namespaces/{_namespace(occurrence)}/events"


def _clipped(text: str, most: int) -> str:
    """As much of a text as the API server takes: it refuses longer ones."""
    return text.encode()[:most].decode(errors="ignore")
