"""The JSON of the test API server as the protobuf of the real one."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from fakes.apiresources import RESOURCE_OF_KIND
from fakes.apistore import Body

MAGIC = b"k8s\0"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_META = {
    "name": (1, "string"),
    "namespace": (3, "string"),
    "uid": (5, "string"),
    "resourceVersion": (6, "string"),
    "creationTimestamp": (8, "time"),
    "deletionTimestamp": (9, "time"),
    "labels": (11, "map"),
    "annotations": (12, "map"),
}
_SCHEMAS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ObjectMeta": _META,
    "ListMeta": {"resourceVersion": (2, "string"), "continue": (3, "string")},
    "Service": {"metadata": (1, "ObjectMeta"), "spec": (2, "ServiceSpec"), "status": (3, "Lb")},
    "ServiceSpec": {
        "ports": (1, "ServicePort"),
        "selector": (2, "map"),
        "clusterIP": (3, "string"),
        "type": (4, "string"),
        "externalIPs": (5, "string"),
        "sessionAffinity": (7, "string"),
        "loadBalancerSourceRanges": (9, "string"),
        "externalTrafficPolicy": (11, "string"),
        "healthCheckNodePort": (12, "int"),
        "clusterIPs": (18, "string"),
        "ipFamilies": (19, "string"),
        "internalTrafficPolicy": (22, "string"),
    },
    "ServicePort": {
        "name": (1, "string"),
        "protocol": (2, "string"),
        "port": (3, "int"),
        "nodePort": (5, "int"),
    },
    "Lb": {"loadBalancer": (1, "LbStatus")},
    "LbStatus": {"ingress": (1, "LbIngress")},
    "LbIngress": {"ip": (1, "string"), "ipMode": (3, "string")},
    "EndpointSlice": {
        "metadata": (1, "ObjectMeta"),
        "endpoints": (2, "Endpoint"),
        "ports": (3, "EndpointPort"),
        "addressType": (4, "string"),
    },
    "Endpoint": {
        "addresses": (1, "string"),
        "conditions": (2, "Conditions"),
        "targetRef": (4, "Reference"),
        "nodeName": (6, "string"),
        "zone": (7, "string"),
        "hints": (8, "Hints"),
    },
    "Reference": {
        "kind": (1, "string"),
        "namespace": (2, "string"),
        "name": (3, "string"),
        "uid": (4, "string"),
    },
    "Conditions": {"ready": (1, "int"), "serving": (2, "int"), "terminating": (3, "int")},
    "Hints": {"forZones": (1, "Name"), "forNodes": (2, "Name")},
    "Name": {"name": (1, "string")},
    "EndpointPort": {"name": (1, "string"), "protocol": (2, "string"), "port": (3, "int")},
    "Node": {"metadata": (1, "ObjectMeta"), "spec": (2, "NodeSpec"), "status": (3, "NodeStatus")},
    "NodeSpec": {"taints": (5, "Taint"), "podCIDRs": (7, "string")},
    "Taint": {"key": (1, "string")},
    "NodeStatus": {"addresses": (5, "NodeAddress")},
    "NodeAddress": {"type": (1, "string"), "address": (2, "string")},
    "ServiceCIDR": {"metadata": (1, "ObjectMeta"), "spec": (2, "Ranges")},
    "Ranges": {"cidrs": (1, "string")},
    "Status": {
        "metadata": (1, "ListMeta"),
        "status": (2, "string"),
        "message": (3, "string"),
        "reason": (4, "string"),
        "details": (5, "Details"),
        "code": (6, "int"),
    },
    "Details": {"causes": (4, "Cause")},
    "Cause": {"reason": (1, "string"), "message": (2, "string")},
}


def varint(number: int) -> bytes:
    """A number."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, data: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(schema: str, body: object) -> bytes:
    """An object as a message. What is not an object stays text, which is no valid message."""
    if not isinstance(body, dict):
        return str(body).encode()
    found = b""
    for name, (number, kind) in _SCHEMAS[schema].items():
        value = body.get(name)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            found += _field(number, kind, each)
    return found


def _field(number: int, kind: str, value: object) -> bytes:
    match kind, value:
        case "int", int():
            return varint(number << 3) + varint(value)
        case "string", _:
            return field(number, str(value).encode())
        case "time", str():
            seconds = int(datetime.fromisoformat(value).timestamp())
            return field(number, varint(1 << 3) + varint(seconds))
        case "map", dict():
            pairs = [
                field(1, key.encode()) + field(2, text.encode()) for key, text in value.items()
            ]
            return b"".join(field(number, pair) for pair in pairs)
    return field(number, message(kind, value))


def wrapped(kind: str, encoded: bytes) -> bytes:
    """A message as the body of a response, or as the object of an event."""
    resource = RESOURCE_OF_KIND.get(kind.removesuffix("List"))
    version = "v1" if resource is None else resource.api_version
    named = field(1, version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, named) + field(2, encoded)


def event_frame(type_: str, kind: str, encoded: bytes) -> bytes:
    """One event of a watch."""
    event = field(1, type_.encode()) + field(2, field(1, wrapped(kind, encoded)))
    return len(event).to_bytes(4, "big") + event


class _Event(msgspec.Struct):
    type: str
    object: dict[str, msgspec.Raw]


def frame_of(line: bytes) -> bytes:
    """One event of a watch, from its JSON."""
    event = msgspec.json.decode(line, type=_Event)
    kind = msgspec.json.decode(event.object["kind"], type=str)
    fields = ((key, event.object.get(key)) for key in _SCHEMAS[kind])
    encoded = [_encoded(kind, key, raw) for key, raw in fields if raw is not None]
    return event_frame(event.type, kind, b"".join(encoded))


def _encoded(schema: str, key: str, raw: msgspec.Raw) -> bytes:
    """A field of an object; what was encoded before is not encoded again."""
    if not bytes(raw).startswith(b"["):
        return _remembered(schema, key, bytes(raw))
    items = msgspec.json.decode(raw, type=list[msgspec.Raw])
    return b"".join([_remembered(schema, key, bytes(item)) for item in items])


@lru_cache(1 << 18)  # as many as the endpoints of a large cluster
def _remembered(schema: str, key: str, raw: bytes) -> bytes:
    value = msgspec.json.decode(raw)
    number, kind = _SCHEMAS[schema][key]
    return b"" if value is None else _field(number, kind, value)


def status_body(status: Body) -> bytes:
    """The body of a refusal."""
    return wrapped("Status", message("Status", status))


def list_body(body: bytes) -> bytes:
    """The body of a list, from its JSON."""
    listed = msgspec.json.decode(body, type=Body)
    kind, items = str(listed["kind"]), listed["items"]
    assert isinstance(items, list)
    encoded = field(1, message("ListMeta", listed["metadata"]))
    encoded += b"".join(field(2, message(kind.removesuffix("List"), item)) for item in items)
    return wrapped(kind, encoded)
