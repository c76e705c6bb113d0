"""The objects that are watched, as messages of protobuf: numbers of fields, as the API fixes them.

The values are those that the JSON of the same object decodes to.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from kubeproxy.cluster.objects import types
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.objects.meta import Kind, ObjectMeta
from kubeproxy.cluster.objects.protobuf import Decode, Field, InvalidProtobuf, Message, text

UNREADABLE = (InvalidProtobuf, UnicodeDecodeError)
"""What decoding raises for invalid bytes."""

MOST_CACHED = 256
"""Values of messages of which there are few."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _string(number: int, name: str, *, pointer: bool = False) -> Field:
    return Field(number, name, text, keep_empty=pointer)


def _strings(number: int, name: str) -> Field:
    return Field(number, name, text, repeated=True)


def _int(number: int, name: str, *, pointer: bool = False) -> Field:
    return Field(number, name, keep_empty=pointer)


def _one(number: int, name: str, decode: Decode) -> Field:
    return Field(number, name, decode, keep_empty=True)


def _many(number: int, name: str, decode: Decode) -> Field:
    return Field(number, name, decode, repeated=True)


# --- metadata ---------------------------------------------------------------------------------


class _Time(msgspec.Struct):
    seconds: int = 0


class _Pair(msgspec.Struct):
    key: str = ""
    value: str = ""


class _Meta(msgspec.Struct):
    """`ObjectMeta`, with lists of pairs where that has maps."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: tuple[_Pair, ...] = ()
    annotations: tuple[_Pair, ...] = ()
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


_TIME = Message(_Time, _int(1, "seconds"))
_PAIR = Message(_Pair, _string(1, "key"), _string(2, "value"))


def _time(data: bytes) -> str | None:
    """A time as JSON has it; the API server writes nothing for none."""
    if not data:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=_TIME.decode(data).seconds)
    except OverflowError as error:
        raise InvalidProtobuf("a time that is out of range") from error
    return f"{moment.isoformat()[:19]}Z"


_META = Message(
    _Meta,
    _string(1, "name"),
    _string(3, "namespace"),
    _string(6, "resource_version"),
    Field(8, "creation_timestamp", _time),
    Field(9, "deletion_timestamp", _time),
    _many(11, "labels", _PAIR.decode),
    _many(12, "annotations", _PAIR.decode),
)


def _metadata(data: bytes) -> ObjectMeta:
    found = _META.decode(data)
    return ObjectMeta(
        found.name,
        found.namespace,
        found.resource_version,
        {pair.key: pair.value for pair in found.labels} or None,
        {pair.key: pair.value for pair in found.annotations} or None,
        found.deletion_timestamp,
        found.creation_timestamp,
    )


_METADATA = _one(1, "metadata", _metadata)

# --- Service (v1) -----------------------------------------------------------------------------

_SERVICE_PORT = Message(
    types.ServicePortSpec,
    _string(1, "name"),
    _string(2, "protocol"),
    _int(3, "port"),
    _int(5, "node_port"),
)
_CLIENT_IP = Message(types.ClientIPConfig, _int(1, "timeout_seconds", pointer=True))
_AFFINITY = Message(types.SessionAffinityConfig, _one(1, "client_ip", _CLIENT_IP.decode))
_SERVICE_SPEC = Message(
    types.ServiceSpec,
    _many(1, "ports", _SERVICE_PORT.decode),
    _many(2, "selector", _PAIR.decode),
    _string(3, "cluster_ip"),
    _string(4, "type"),
    _strings(5, "external_ips"),
    _string(7, "session_affinity"),
    _strings(9, "load_balancer_source_ranges"),
    _string(11, "external_traffic_policy"),
    _int(12, "health_check_node_port"),
    _one(14, "session_affinity_config", _AFFINITY.decode),
    _strings(18, "cluster_ips"),
    _strings(19, "ip_families"),
    _string(22, "internal_traffic_policy", pointer=True),
)


def _service_spec(data: bytes) -> types.ServiceSpec:
    found: types.ServiceSpec = _SERVICE_SPEC.decode(data)
    pairs: Iterable[_Pair] = found.selector or ()  # type: ignore[assignment]  # a list on the wire
    selector = {pair.key: pair.value for pair in pairs}
    return msgspec.structs.replace(found, selector=selector) if selector else found


_INGRESS = Message(
    types.LoadBalancerIngress, _string(1, "ip"), _string(3, "ip_mode", pointer=True)
)
_LOAD_BALANCER = Message(types.LoadBalancerStatus, _many(1, "ingress", _INGRESS.decode))
_SERVICE_STATUS = Message(types.ServiceStatus, _one(1, "load_balancer", _LOAD_BALANCER.decode))
_SERVICE = Message(
    types.Service,
    _METADATA,
    _one(2, "spec", _service_spec),
    _one(3, "status", _SERVICE_STATUS.decode),
)

# --- ServiceCIDR (networking.k8s.io/v1) -------------------------------------------------------

_RANGES = Message(types.ServiceCIDRSpec, _strings(1, "cidrs"))
_SERVICE_CIDR = Message(types.ServiceCIDR, _METADATA, _one(2, "spec", _RANGES.decode))

# --- EndpointSlice (discovery.k8s.io/v1) ------------------------------------------------------


class _ConditionNumbers(msgspec.Struct):
    ready: int | None = None
    serving: int | None = None
    terminating: int | None = None


_CONDITIONS = Message(
    _ConditionNumbers,
    _int(1, "ready", pointer=True),
    _int(2, "serving", pointer=True),
    _int(3, "terminating", pointer=True),
)


@lru_cache(MOST_CACHED)
def _conditions(data: bytes) -> types.Conditions:
    found = _CONDITIONS.decode(data)
    return types.Conditions(*map(_bool, (found.ready, found.serving, found.terminating)))


def _bool(number: int | None) -> bool | None:
    return None if number is None else bool(number)


_HINT = Message(types.Hint, _string(1, "name"))
_HINTS = Message(
    types.Hints,
    _many(1, "for_zones", _HINT.decode),
    _many(2, "for_nodes", _HINT.decode),
)
_hints = lru_cache(MOST_CACHED)(_HINTS.decode)
# The tags of an endpoint's fields, and how much conditions can have.
_ADDRESS, _CONDITION, _TARGET, _NODE_NAME, _ZONE, _HINTED = 0x0A, 0x12, 0x22, 0x32, 0x3A, 0x42
_MOST_CONDITIONS = 6
_TARGET_REF = Message(types.TargetRef, _string(1, "kind"))
_POD_TARGET, _IS_POD = types.TargetRef("Pod"), b"\x0a\x03Pod"


def _target(data: bytes) -> types.TargetRef:
    """Of a Pod nothing more is read."""
    return _POD_TARGET if data.startswith(_IS_POD) else _TARGET_REF.decode(data)


_ENDPOINT = Message(
    types.SliceEndpoint,
    _strings(1, "addresses"),
    _one(2, "conditions", _conditions),
    _string(6, "node_name", pointer=True),
    _one(8, "hints", _hints),
    _one(4, "target_ref", _target),
)


def decode_endpoint(data: bytes) -> types.SliceEndpoint:
    """As the table above, in a third of the time for an endpoint as the controllers write it.

    Slices are the most frequent events, and nearly all of a slice are its endpoints.
    """
    found = _usual_endpoint(data)
    return _ENDPOINT.decode(data) if found is None else found


def _usual_endpoint(data: bytes) -> types.SliceEndpoint | None:  # noqa: C901, PLR0911
    """One with an address, conditions, perhaps a targetRef, a node, perhaps a zone and hints."""
    try:
        at = 2 + data[1]
        if data[0] != _ADDRESS or data[at] != _CONDITION or data[at + 1] > _MOST_CONDITIONS:
            return None
        start, end = at + 2, at + 2 + data[at + 1]
        address, conditions = data[2:at], _conditions(data[start:end])
        target = None
        if data[end] == _TARGET:
            size, end = data[end + 1], end + 2
            if size > 127:
                if data[end] > 127:
                    return None
                size, end = size & 127 | data[end] << 7, end + 1
            if not data.startswith(_IS_POD, end):
                return None
            target = _POD_TARGET
            end += size
        start = end + 2
        at = start + data[end + 1]
        behind = at + 2 + data[at + 1] if at < len(data) and data[at] == _ZONE else at
        if data[end] != _NODE_NAME or at - start > 127 or len(address) > 127 or behind - at > 129:
            return None
        hints = None
        if behind < len(data):
            size = data[behind + 1]
            if data[behind] != _HINTED or size > 127 or behind + 2 + size != len(data):
                return None
            hints = _hints(data[behind + 2 :])
    except IndexError:
        return None
    if behind > len(data):
        return None
    node = data[start:at].decode()
    return types.SliceEndpoint((address.decode(),), conditions, node, hints, target)


_ENDPOINT_PORT = Message(
    types.EndpointPort,
    _string(1, "name", pointer=True),
    _string(2, "protocol", pointer=True),
    _int(3, "port", pointer=True),
)
_ENDPOINT_SLICE = Message(
    types.EndpointSlice,
    _METADATA,
    _many(2, "endpoints", decode_endpoint),
    _many(3, "ports", _ENDPOINT_PORT.decode),
    _string(4, "address_type"),
)

# --- Node (v1) --------------------------------------------------------------------------------

_TAINT = Message(types.Taint, _string(1, "key"))
_NODE_SPEC = Message(types.NodeSpec, _many(5, "taints", _TAINT.decode), _strings(7, "pod_cidrs"))
_NODE_ADDRESS = Message(types.NodeAddress, _string(1, "type"), _string(2, "address"))
_NODE_STATUS = Message(types.NodeStatus, _many(5, "addresses", _NODE_ADDRESS.decode))
_NODE = Message(
    types.Node,
    _METADATA,
    _one(2, "spec", _NODE_SPEC.decode),
    _one(3, "status", _NODE_STATUS.decode),
)


# --- all of them ------------------------------------------------------------------------------


class _MetadataOnly(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()


_ANY = Message(_MetadataOnly, _METADATA)
_DECODERS: dict[Kind, Callable[[bytes], types.KubeObject]] = {
    Kind.SERVICE: _SERVICE.decode,
    Kind.ENDPOINT_SLICE: _ENDPOINT_SLICE.decode,
    Kind.NODE: _NODE.decode,
    Kind.SERVICE_CIDR: _SERVICE_CIDR.decode,
}


def decode_message(kind: Kind, data: bytes) -> types.KubeObject:
    """The object of that kind in a message."""
    try:
        found = _DECODERS[kind](data)
    except (*UNREADABLE, TypeError) as error:  # the latter: without metadata
        try:
            metadata = decode_metadata(data)
        except UNREADABLE:
            metadata = None
        raise UndecodableObject(kind, metadata, str(error)) from error
    if not found.metadata.name:
        raise UndecodableObject(kind, found.metadata, "metadata.name is missing")
    return found


def decode_metadata(data: bytes) -> ObjectMeta:
    """The metadata of an object of any kind."""
    return _ANY.decode(data).metadata
