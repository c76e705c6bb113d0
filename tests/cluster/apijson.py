"""What an API server writes, as bytes: objects, events, lists and refusals."""

import json

from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.watch.incidents import Output
from kubeproxy.cluster.watch.listwatch import ListWatch
from kubeproxy.cluster.watch.wire import JSON, Encoding

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

EXPIRED = Status(410, "Expired", "too old resource version: 1 (15510)")
TOO_LARGE = Status(504, "Timeout", "Too large resource version", ("ResourceVersionTooLarge",))
GATE_OFF = Status(422, "Invalid", "sendInitialEvents is forbidden for watch")
UNAUTHORIZED = Status(401, "Unauthorized", "Unauthorized")
FORBIDDEN = Status(403, "Forbidden", "services is forbidden")
BUSY = Status(429, "TooManyRequests", "too many requests")
BROKEN = Status(500, "InternalError", "boom")
UNAVAILABLE = Status(503, "ServiceUnavailable", "not yet")


def service(name: str, version: int, **spec: object) -> dict[str, object]:
    """A Service in namespace ns."""
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"clusterIP": "10.0.0.1", **spec}}


def unreadable(name: str, version: int) -> dict[str, object]:
    """A Service whose ports are not what the API says."""
    return service(name, version, ports="none")


def deeper(data: bytes, depth: int = 9_990) -> bytes:
    """With metadata of objects as deep as an API server takes it."""
    fields = b'{"f:a":' * depth + b"{}" + b"}" * depth
    return data.replace(b'"name"', b'"managedFields": [{"fieldsV1": %s}], "name"' % fields)


def event(type_: str, obj: dict[str, object]) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def bookmark(version: str, *, ends: bool = False) -> bytes:
    """A bookmark, or the one that ends the initial events."""
    metadata: dict[str, object] = {"resourceVersion": version}
    if ends:
        metadata["annotations"] = INITIAL_EVENTS_END
    return event("BOOKMARK", {"kind": "Service", "metadata": metadata, "spec": {}})


def error_event(status: Status) -> bytes:
    """An ERROR event."""
    return event("ERROR", json.loads(status_body(status)))


def status_body(status: Status) -> bytes:
    """The body of a refusal."""
    body = {
        "kind": "Status",
        "code": status.code,
        "reason": status.reason,
        "message": status.message,
        "details": {"causes": [{"reason": cause} for cause in status.causes]},
    }
    return json.dumps(body).encode()


def page(version: str, *items: dict[str, object], token: str = "") -> bytes:
    """A list, or a page of it, without spaces, as it is read in pieces."""
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    body = {"kind": "ServiceList", "metadata": metadata, "items": items}
    return json.dumps(body, separators=(",", ":")).encode()


def listed(protocol: ListWatch, body: bytes, encoding: Encoding = JSON) -> list[Output]:
    """What follows from a list, or a page of it, that arrives as a whole."""
    protocol.list_opened(encoding)
    return [*protocol.receive_list(body), *protocol.listed()]
