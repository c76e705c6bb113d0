"""EndpointSlice -> the endpoints that it adds to a Service.

A cluster can have hundreds of thousands of endpoints, so they are kept small: no dictionaries,
shared names, only what is needed to decide or to explain.
"""

from functools import lru_cache
from sys import intern

import msgspec

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family, Protocol, parse_addresses
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.objects.meta import SERVICE_NAME_LABEL, ObjectKey
from kubeproxy.cluster.objects.types import (
    Conditions,
    EndpointPort,
    EndpointSlice,
    Hints,
    SliceEndpoint,
)


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One address of a slice, without a port.

    `node` is "" when the slice does not name it; the endpoint does not count as `local` then.
    `pod` says that it is a Pod; what people write by hand need not be.
    """

    address: str
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    local: bool = False
    node: str = ""
    zone_hints: tuple[str, ...] = ()
    node_hints: tuple[str, ...] = ()
    pod: bool = False


class SlicePort(msgspec.Struct, frozen=True, gc=False):
    """A port of a slice; it belongs to the Service's port of the same name and protocol."""

    name: str
    protocol: Protocol
    port: int


class Slice(msgspec.Struct, frozen=True):
    """What one EndpointSlice adds to its Service in its family."""

    service: ObjectKey
    family: Family
    ports: tuple[SlicePort, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


_FAMILY_OF_ADDRESS_TYPE = {family.value: family for family in Family}
_NO_CONDITIONS = Conditions()
_MOST_CACHED = 256

_HintNames = tuple[tuple[str, ...], tuple[str, ...]]
"""The zones and the nodes that hints name."""

_NO_NAMES: _HintNames = ((), ())


def derive_slice(obj: EndpointSlice, node_name: str, problems: list[str]) -> Slice | None:
    """What the slice adds to its Service, seen from the node of that name.

    None when it belongs to no Service. Invalid parts are left out, and become problems.
    """
    service = (obj.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
    if not service or not obj.metadata.namespace:
        return None
    family = _FAMILY_OF_ADDRESS_TYPE.get(obj.address_type)
    if family is None:
        problems.append(f"addressType {quoted(obj.address_type)} is not proxied")
        return None
    return Slice(
        service=ObjectKey(obj.metadata.namespace, service),
        family=family,
        ports=_ports(obj.ports or (), problems),
        endpoints=_endpoints(obj.endpoints or (), family, node_name, problems),
    )


def _ports(ports: tuple[EndpointPort, ...], problems: list[str]) -> tuple[SlicePort, ...]:
    found = []
    for index, entry in enumerate(ports):
        if entry.name is None or not entry.port:
            continue
        protocol = PROTOCOL_BY_NAME.get(entry.protocol or "TCP")
        if protocol is None or not 0 < entry.port < 65536:
            wanted = quoted(f"{entry.protocol}/{entry.port}")
            problems.append(f"ports[{index}] {wanted} cannot be proxied")
            continue
        found.append(SlicePort(intern(entry.name), protocol, entry.port))
    return tuple(found)


def _endpoints(
    entries: tuple[SliceEndpoint, ...], family: Family, node_name: str, problems: list[str]
) -> tuple[Endpoint, ...]:
    found = []
    names: dict[int, _HintNames] = {}  # by identity: endpoints share what is decoded once
    texts = [entry.addresses[0] if entry.addresses else "" for entry in entries]
    addresses = parse_addresses(texts, family)
    for index, (entry, address) in enumerate(zip(entries, addresses, strict=True)):
        if address is None:
            if entry.addresses:
                text = quoted(texts[index])
                problems.append(f"endpoints[{index}]: {text} is not {family.value}")
            continue
        conditions = entry.conditions or _NO_CONDITIONS
        node = intern(entry.node_name) if entry.node_name else ""
        hints, target = entry.hints, entry.target_ref
        zones, nodes = _NO_NAMES
        if hints:
            zones, nodes = names.get(id(hints)) or names.setdefault(id(hints), _names(hints))
        found.append(
            Endpoint(
                address,
                conditions.ready is not False,
                conditions.serving is not False,
                conditions.terminating is True,
                node != "" and node == node_name,
                node,
                zones,
                nodes,
                target is not None and target.kind == "Pod",
            )
        )
    return tuple(found)


@lru_cache(_MOST_CACHED)
def _names(hints: Hints) -> _HintNames:
    zones, nodes = hints.for_zones or (), hints.for_nodes or ()
    return tuple([intern(zone.name) for zone in zones]), tuple([intern(n.name) for n in nodes])
