"""The state of the cluster, and which services an event touches.

`Cluster` keeps derived values only, in dictionaries by key, so that an event costs what it
changes. The same events twice, or in another order, lead to the same state. Objects that are in
no event between Reset and Synced are gone.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

import msgspec

from kubeproxy.base.inet import Family, Prefix, parse_prefix
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.model.endpoint import Slice, derive_slice
from kubeproxy.cluster.model.node import NodeState, derive_node
from kubeproxy.cluster.model.serviceport import ServicePort, derive_service_ports
from kubeproxy.cluster.model.topology import Place
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
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
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.services) or self.node or self.service_cidrs


NOTHING = Touched()
_NO_SLICES: Mapping[str, Slice] = {}


class Cluster:
    """Services, slices, service CIDRs and our Node, as derived values."""

    def __init__(self, node_name: str, *, allow_external_ips: bool = True) -> None:
        self.node_name = node_name
        self._allow_external_ips = allow_external_ips
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
    def place(self) -> Place:
        """Where this node is, for topology hints."""
        node = self.node
        return Place(self.node_name, node.zone if node else "")

    def synced(self, *kinds: Kind) -> bool:
        """Whether all objects of these kinds have been listed at least once."""
        return self._synced.issuperset(kinds)

    def reset(self, kind: Kind) -> None:
        """A list begins: objects that are not in it are gone when it is complete."""
        known: dict[Kind, Iterable[ObjectKey]] = {
            Kind.SERVICE: {key for services in self._services.values() for key in services},
            Kind.ENDPOINT_SLICE: self._slices,
            Kind.NODE: self._nodes,
            Kind.SERVICE_CIDR: self._service_cidrs,
        }
        self._unlisted[kind] = set(known[kind])

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
        match obj:
            case Service():
                return self._upsert_service(key, obj)
            case EndpointSlice():
                return self._upsert_slice(key, obj)
            case Node():
                return self._set_node(key, derive_node(obj))
            case ServiceCIDR():
                return self._upsert_service_cidr(key, obj)
            case _:
                assert_never(obj)

    def delete(self, kind: Kind, key: ObjectKey) -> Touched:
        """An object is gone."""
        self.keep(kind, key)
        match kind:
            case Kind.SERVICE:
                return Touched(self._set_ports(key, dict.fromkeys(Family, ())))
            case Kind.ENDPOINT_SLICE:
                return Touched(self._set_slice(key, None))
            case Kind.NODE:
                return self._set_node(key, None)
            case Kind.SERVICE_CIDR:
                return self._set_service_cidrs(key, ())
            case _:
                assert_never(kind)

    def keep(self, kind: Kind, key: ObjectKey) -> None:
        """The current list has the object, so it stays when the list is complete."""
        if kind in self._unlisted:
            self._unlisted[kind].discard(key)

    def _upsert_service(self, key: ObjectKey, obj: Service) -> Touched:
        derived = {
            family: derive_service_ports(obj, family, allow_external_ips=self._allow_external_ips)
            for family in Family
        }
        texts = dict.fromkeys(text for each in derived.values() for text in each.problems)
        return Touched(
            self._set_ports(key, {family: each.ports for family, each in derived.items()}),
            problems=tuple(Problem(Kind.SERVICE, key, text) for text in texts),
        )

    def _set_ports(
        self, key: ObjectKey, ports: Mapping[Family, tuple[ServicePort, ...]]
    ) -> tuple[tuple[Family, ObjectKey], ...]:
        touched = []
        for family, services in self._services.items():
            if services.get(key, ()) != ports[family]:
                touched.append((family, key))
                if ports[family]:
                    services[key] = ports[family]
                else:
                    del services[key]
        return tuple(touched)

    def _upsert_slice(self, key: ObjectKey, obj: EndpointSlice) -> Touched:
        derived = derive_slice(obj, self.node_name)
        return Touched(
            self._set_slice(key, derived.slice),
            problems=tuple(Problem(Kind.ENDPOINT_SLICE, key, text) for text in derived.problems),
        )

    def _set_slice(
        self, key: ObjectKey, new: Slice | None
    ) -> tuple[tuple[Family, ObjectKey], ...]:
        old = self._slices.get(key)
        if old == new:
            return ()
        touched = []
        if old is not None:
            owner = (old.family, old.service)
            touched.append(owner)
            siblings = self._slices_of[owner]
            del self._slices[key], siblings[key.name]
            if not siblings:
                del self._slices_of[owner]
        if new is not None:
            owner = (new.family, new.service)
            if owner not in touched:
                touched.append(owner)
            self._slices[key] = new
            self._slices_of.setdefault(owner, {})[key.name] = new
        return tuple(touched)

    def _set_node(self, key: ObjectKey, new: NodeState | None) -> Touched:
        if self._nodes.get(key) == new:
            return NOTHING
        if new is None:
            del self._nodes[key]
        else:
            self._nodes[key] = new
        return Touched(node=key.name == self.node_name)

    def _upsert_service_cidr(self, key: ObjectKey, obj: ServiceCIDR) -> Touched:
        texts = (obj.spec.cidrs if obj.spec else None) or ()
        parsed = [(text, parse_prefix(text)) for text in texts]
        touched = self._set_service_cidrs(
            key, tuple(prefix for _, prefix in parsed if prefix is not None)
        )
        problems = tuple(
            Problem(Kind.SERVICE_CIDR, key, f"spec.cidrs: {quoted(text)} is not a CIDR")
            for text, prefix in parsed
            if prefix is None
        )
        return msgspec.structs.replace(touched, problems=problems)

    def _set_service_cidrs(self, key: ObjectKey, cidrs: tuple[Prefix, ...]) -> Touched:
        if self._service_cidrs.get(key, ()) == cidrs:
            return NOTHING
        if cidrs:
            self._service_cidrs[key] = cidrs
        else:
            del self._service_cidrs[key]
        return Touched(service_cidrs=True)
