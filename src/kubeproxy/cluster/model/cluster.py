"""The state of the cluster, and which services an event touches.

`Cluster` keeps derived values only, in dictionaries by key, so that an event costs what it
changes. The same events twice, or in another order, lead to the same state. Objects that are in
no event between Reset and Synced are gone.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeVar, assert_never

import msgspec

from kubeproxy.base.inet import Family, Prefix, parse_prefix
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.events import Delete, Event, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.model.endpoint import Slice, derive_slice
from kubeproxy.cluster.model.node import NodeState, derive_node
from kubeproxy.cluster.model.serviceport import ServicePort, derive_service_ports
from kubeproxy.cluster.objects.meta import Kind, ObjectId, ObjectKey
from kubeproxy.cluster.objects.types import EndpointSlice, KubeObject, Node, Service, ServiceCIDR


class Problem(msgspec.Struct, frozen=True):
    """A part of an object that is invalid and therefore ignored."""

    kind: Kind
    key: ObjectKey
    text: str


class Touched(msgspec.Struct, frozen=True):
    """What an event changes: services of a family, or something that concerns all services."""

    services: tuple[tuple[Family, ObjectKey], ...] = ()
    node: bool = False
    service_cidrs: bool = False

    def __bool__(self) -> bool:
        return bool(self.services) or self.node or self.service_cidrs


NOTHING = Touched()
_NO_SLICES: Mapping[str, Slice] = {}
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Cluster:
    """Services, slices, service CIDRs and our Node, as derived values.

    `problems` are the invalid parts of the objects as they are now.
    """

    def __init__(self, node_name: str, *, allow_external_ips: bool = True) -> None:
        self.node_name = node_name
        self.problems: dict[ObjectId, tuple[Problem, ...]] = {}
        self.allow_external_ips = allow_external_ips
        self._services: dict[Family, dict[ObjectKey, tuple[ServicePort, ...]]] = {
            family: {} for family in Family
        }
        self._slices: dict[ObjectKey, Slice] = {}
        self._slices_of: dict[tuple[Family, ObjectKey], dict[str, Slice]] = {}
        self._service_cidrs: dict[ObjectKey, tuple[Prefix, ...]] = {}
        self._nodes: dict[ObjectKey, NodeState] = {}
        self._unlisted: dict[Kind, set[ObjectKey]] = {}
        self._synced: set[Kind] = set()

    def service_ports(self, family: Family, service: ObjectKey) -> tuple[ServicePort, ...]:
        """The ports of a service that are proxied in the family."""
        return self._services[family].get(service, ())

    def slices(self, family: Family, service: ObjectKey) -> Mapping[str, Slice]:
        """The slices of a service in the family, by name."""
        return self._slices_of.get((family, service), _NO_SLICES)

    def all_ports(self, family: Family) -> Mapping[ObjectKey, tuple[ServicePort, ...]]:
        """The ports of every service that is proxied in the family."""
        return self._services[family]

    def all_slices(self) -> Mapping[ObjectKey, Slice]:
        """Every slice of either family, whether or not its Service is known."""
        return self._slices

    def all_service_cidrs(self) -> Mapping[ObjectKey, tuple[Prefix, ...]]:
        """The ranges of every ServiceCIDR."""
        return self._service_cidrs

    def knows(self, kind: Kind, key: ObjectKey) -> bool:
        """Whether there is an object that decides about packets."""
        if kind is Kind.SERVICE:
            return any(key in services for services in self._services.values())
        known: dict[Kind, Mapping[ObjectKey, object]] = {
            Kind.ENDPOINT_SLICE: self._slices,
            Kind.NODE: self._nodes,
            Kind.SERVICE_CIDR: self._service_cidrs,
        }
        return key in known[kind]

    def services(self, family: Family) -> Iterable[ObjectKey]:
        """Every service that is proxied in the family."""
        return self._services[family].keys()

    def service_cidrs(self, family: Family) -> tuple[Prefix, ...]:
        """The ranges of cluster IPs, each once, in order."""
        found = {cidr for cidrs in self._service_cidrs.values() for cidr in cidrs}
        return tuple(sorted(cidr for cidr in found if cidr.family is family))

    @property
    def node(self) -> NodeState | None:
        """Our own Node, once it is known."""
        return self._nodes.get(ObjectKey("", self.node_name))

    @property
    def zone(self) -> str:
        """The zone of this node, for topology hints; "" when it is not known."""
        return self.node.zone if self.node else ""

    def synced(self, *kinds: Kind) -> bool:
        """Whether all objects of these kinds have been listed at least once."""
        return self._synced.issuperset(kinds)

    def apply(self, event: Event) -> Touched:
        """Handle an event of a source."""
        match event:
            case Upsert(kind, obj):
                return self.upsert(kind, obj)
            case Delete(kind, key):
                return self.delete(kind, key)
            case Keep(kind, key):
                self.keep(kind, key)
            case Reset(kind):
                self.reset(kind)
            case Synced(kind):
                return self.complete(kind)
            case _:
                assert_never(event)
        return NOTHING

    def reset(self, kind: Kind) -> None:
        """A list begins: objects that are not in it are gone when it is complete."""
        known: dict[Kind, Iterable[ObjectKey]] = {
            Kind.SERVICE: {key for services in self._services.values() for key in services},
            Kind.ENDPOINT_SLICE: self._slices,
            Kind.NODE: self._nodes,
            Kind.SERVICE_CIDR: self._service_cidrs,
        }
        invalid = (key for of_kind, key in self.problems if of_kind is kind)
        self._unlisted[kind] = {*known[kind], *invalid}

    def complete(self, kind: Kind) -> Touched:
        """A list is complete."""
        self._synced.add(kind)
        gone = self._unlisted.pop(kind, set())
        touched = [self.delete(kind, key) for key in sorted(gone)]
        return Touched(
            services=tuple(service for each in touched for service in each.services),
            node=any(each.node for each in touched),
            service_cidrs=any(each.service_cidrs for each in touched),
        )

    def upsert(self, kind: Kind, obj: KubeObject) -> Touched:
        """An object was added or changed."""
        key = obj.metadata.key
        self.keep(kind, key)
        problems: list[str] = []
        match obj:
            case Service():
                derive = partial(
                    derive_service_ports, obj, allow_external_ips=self.allow_external_ips
                )
                touched = self.set_ports(key, {each: derive(each, problems) for each in Family})
            case EndpointSlice():
                touched = self.set_slice(key, derive_slice(obj, self.node_name, problems))
            case Node():
                touched = self.set_node(key, derive_node(obj))
            case ServiceCIDR():
                touched = self.set_service_cidrs(key, _derive_prefixes(obj, problems))
            case _:
                assert_never(obj)
        texts = dict.fromkeys(problems)  # both families have the same ones
        found = tuple(Problem(kind, key, text) for text in texts) if texts else None
        _set(self.problems, (kind, key), found)
        return touched

    def delete(self, kind: Kind, key: ObjectKey) -> Touched:
        """An object is gone."""
        self.keep(kind, key)
        self.problems.pop((kind, key), None)
        match kind:
            case Kind.SERVICE:
                return self.set_ports(key, {})
            case Kind.ENDPOINT_SLICE:
                return self.set_slice(key, None)
            case Kind.NODE:
                return self.set_node(key, None)
            case Kind.SERVICE_CIDR:
                return self.set_service_cidrs(key, ())
            case _:
                assert_never(kind)

    def keep(self, kind: Kind, key: ObjectKey) -> None:
        """The current list has the object, so it stays when the list is complete."""
        if kind in self._unlisted:
            self._unlisted[kind].discard(key)

    def set_ports(
        self, key: ObjectKey, ports: Mapping[Family, tuple[ServicePort, ...]]
    ) -> Touched:
        """A Service has these ports by now; none when it is gone."""
        return Touched(
            tuple(
                (family, key)
                for family, services in self._services.items()
                if _set(services, key, ports.get(family) or None)
            )
        )

    def set_slice(self, key: ObjectKey, new: Slice | None) -> Touched:
        """A slice is this by now; None when it is gone."""
        old = self._slices.get(key)
        if not _set(self._slices, key, new):
            return NOTHING
        touched: dict[tuple[Family, ObjectKey], None] = {}
        if old is not None:
            owner = (old.family, old.service)
            touched[owner] = None
            siblings = self._slices_of[owner]
            del siblings[key.name]
            if not siblings:
                del self._slices_of[owner]
        if new is not None:
            owner = (new.family, new.service)
            touched[owner] = None
            self._slices_of.setdefault(owner, {})[key.name] = new
        return Touched(tuple(touched))

    def set_node(self, key: ObjectKey, new: NodeState | None) -> Touched:
        """A Node is this by now; None when it is gone."""
        return Touched(node=_set(self._nodes, key, new) and key.name == self.node_name)

    def set_service_cidrs(self, key: ObjectKey, cidrs: tuple[Prefix, ...]) -> Touched:
        """A ServiceCIDR has these ranges by now; none when it is gone."""
        return Touched(service_cidrs=_set(self._service_cidrs, key, cidrs or None))


def _set(known: dict[_Key, _Value], key: _Key, value: _Value | None) -> bool:
    """Set the value of an object, or remove it; whether that changes anything."""
    if known.get(key) == value:
        return False
    if value is None:
        del known[key]
    else:
        known[key] = value
    return True


def _derive_prefixes(obj: ServiceCIDR, problems: list[str]) -> tuple[Prefix, ...]:
    prefixes = []
    for text in (obj.spec.cidrs if obj.spec else None) or ():
        prefix = parse_prefix(text)
        if prefix is None:
            problems.append(f"spec.cidrs: {quoted(text)} is not a CIDR")
        else:
            prefixes.append(prefix)
    return tuple(prefixes)
