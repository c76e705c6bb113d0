"""The events that this proxy records, as values and as requests.

Reasons and actions are upstream's: people filter and alert on them.
"""

from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION

_CONTROLLER = "kube-proxy"
_MOST_NOTE_BYTES = 1024
_MOST_INSTANCE_BYTES = 128
_JSON = "application/json"
_STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_GROUP_VERSION = "events.k8s.io/v1"
_START = "StartKubeProxy"


class Severity(Enum):
    """The two types of events that there are."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Subject(msgspec.Struct, frozen=True):
    """The object that an event is about; a Node has no namespace."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Event(msgspec.Struct, frozen=True):
    """Something that happened; the time and the reporter are added when it is recorded."""

    subject: Subject
    severity: Severity
    reason: str
    action: str
    note: str = ""


def starting(node: str, mode: str) -> Event:
    """The proxy of the node is set up and watches the cluster.

    Upstream's has no note; here it says which of the two has started, and in which mode.
    """
    note = f"kubeproxy {VERSION} (kube-proxy {KUBERNETES_VERSION}) in {mode} mode"
    return Event(Subject("Node", node), Severity.NORMAL, "Starting", _START, note)


def service_health_port_failed(
    node: str, service: Subject, port: int, error: Exception | str
) -> Event:
    """A health check node port of a Service could not be opened."""
    note = f'node {node} failed to start healthcheck "{service}" on port {port}: {error}'
    return Event(service, Severity.WARNING, "FailedToStartServiceHealthcheck", "Listen", note)


def endpoint_ejected(node: str, service: Subject, ejected: str) -> Event:
    """An endpoint of a Service fails and is left out for a while; `ejected` says which and why."""
    note = f"node {node}: {ejected}"
    return Event(service, Severity.WARNING, "EndpointEjected", "Eject", note)


def health_server_failed(node: str, error: Exception | str) -> Event:
    """The health server could not be started, which ends the process."""
    reason = "FailedToStartProxierHealthcheck"
    return Event(Subject("Node", node), Severity.WARNING, reason, _START, str(error))


def metrics_server_failed(node: str, error: Exception | str) -> Event:
    """The metrics server could not be started, which ends the process."""
    reason = "FailedToStartMetricServer"
    return Event(Subject("Node", node), Severity.WARNING, reason, _START, str(error))


# --- as requests ------------------------------------------------------------------------------


class Occurrence(msgspec.Struct, frozen=True):
    """An event that occurred `count` times; times are nanoseconds since 1970.

    The first time is its identity for the API server.
    """

    event: Event
    first: int
    last: int
    count: int = 1

    @property
    def name(self) -> str:
        """The event's name: that of its object, and when it first occurred."""
        return f"{self.event.subject.name}.{self.first:x}"


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
        "metadata": {"name": occurrence.name, "namespace": subject.namespace or "default"},
        "eventTime": timestamp(occurrence.first),
        "reportingController": _CONTROLLER,
        "reportingInstance": _clipped(f"{_CONTROLLER}-{host}", _MOST_INSTANCE_BYTES),
        "action": event.action,
        "reason": event.reason,
        "regarding": regarding,
        "type": event.severity.value,
        "note": _clipped(event.note, _MOST_NOTE_BYTES),
    }
    if occurrence.count > 1:
        body |= _series(occurrence)
    return EventRequest("POST", _collection(subject), msgspec.json.encode(body))


def update(occurrence: Occurrence) -> EventRequest:
    """The request that makes a series of an event that is there."""
    path = f"{_collection(occurrence.event.subject)}/{occurrence.name}"
    body = msgspec.json.encode(_series(occurrence))
    return EventRequest("PATCH", path, body, _STRATEGIC_MERGE)


def timestamp(nanoseconds: int) -> str:
    """A time of the wall clock, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def _series(occurrence: Occurrence) -> dict[str, object]:
    last = timestamp(occurrence.last)
    return {"series": {"count": occurrence.count, "lastObservedTime": last}}


def _collection(subject: Subject) -> str:
    return f"/apis/{_GROUP_VERSION}/namespaces/{subject.namespace or 'default'}/events"


def _clipped(text: str, most: int) -> str:
    """As much of a text as the API server takes: it refuses longer ones."""
    return text.encode()[:most].decode(errors="ignore")
