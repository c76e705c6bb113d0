"""The values of the forwarding table: frontends, backends, and the table that holds them.

An `Entry` is one service port in one IP family: the unit that is compiled, compared and
programmed. What each class of source gets from it is in its two policies (`policy.py`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Prefix, Protocol, join
from kubeproxy.base.steps import PART, Steps, finish
from kubeproxy.table.policy import Policy, Refusal, Scope


class ServiceName(NamedTuple):
    """A Service, whatever the port."""

    namespace: str
    service: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.service}"


class ServicePortName(NamedTuple):
    """What identifies a service port; prints as upstream prints it."""

    namespace: str
    service: str
    port: str
    protocol: Protocol

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.service}"
        return f"{name}:{self.port}" if self.port else name

    @property
    def owner(self) -> ServiceName:
        """The Service that it is a port of."""
        return ServiceName(self.namespace, self.service)


class FrontendKind(Enum):
    """What kind of address a client dials, the one that wins a conflict first."""

    CLUSTER_IP = "cluster IP"
    LOAD_BALANCER = "load-balancer IP"
    EXTERNAL_IP = "external IP"
    NODE_PORT = "node port"

    @property
    def external(self) -> bool:
        """Whether the external traffic policy governs it."""
        return self is not FrontendKind.CLUSTER_IP


class Balance(Enum):
    """How one of several backends is chosen, where the dataplane has the choice."""

    RANDOM = "random"
    ROUND_ROBIN = "round-robin"
    SOURCE_HASH = "source-hash"


PRECEDENCE = {kind: rank for rank, kind in enumerate(FrontendKind)}


class FrontendKey(NamedTuple):
    """The destination of a packet. The address is "" for a node port: any node-port address."""

    address: str
    protocol: Protocol
    port: int

    def __str__(self) -> str:
        where = join(self.address, self.port) if self.address else f"node:{self.port}"
        return f"{where}/{self.protocol.name}"


class Frontend(NamedTuple):
    """An address of a service port that a client can dial."""

    kind: FrontendKind
    address: str
    port: int


class Backend(msgspec.Struct, frozen=True, order=True, gc=False):
    """An endpoint that packets can be sent to."""

    address: str
    port: int
    local: bool = False

    def __str__(self) -> str:
        return join(self.address, self.port)


class Entry(msgspec.Struct, frozen=True):
    """One service port: its frontends, and the endpoints that serve them.

    `cluster` are the backends for `Scope.CLUSTER`, `local` those for `Scope.LOCAL`: each is empty
    when no policy of the service port uses it. `has_endpoints` says that some endpoint, on any
    node, can serve. `internal` is the policy of cluster IPs, `external` that of all other
    addresses. `externally_accessible` says that the Service has other addresses, though they may
    all be served by another Service or switched off.
    `source_ranges` is None when all clients may use the load balancer's addresses; `own_vips` says
    that these addresses themselves are allowed sources, because this node is in a range.
    `serving` lists, for UDP, the endpoints to which existing connections may continue.
    `endpoints` counts all endpoints of the service port, in any state and on any node; `here` are
    those on this node, in any state.
    `healing` is what is done about endpoints that fail. `ejected` are those that are left out of
    the lists for that reason. `pods` are those that are pods, in any state and on any node, where
    connections to those that left are reset; `has_selector` says that all of them should be pods.
    """

    name: ServicePortName
    frontends: tuple[Frontend, ...]
    cluster: tuple[Backend, ...] = ()
    local: tuple[Backend, ...] = ()
    has_endpoints: bool = False
    internal: Policy = Policy.INTERNAL_CLUSTER
    external: Policy = Policy.EXTERNAL_CLUSTER
    externally_accessible: bool = False
    affinity_seconds: int = 0
    source_ranges: tuple[Prefix, ...] | None = None
    own_vips: bool = False
    serving: tuple[Backend, ...] = ()
    balance: Balance = Balance.RANDOM
    endpoints: int = 0
    here: tuple[Backend, ...] = ()
    healing: Healing = Healing.NONE
    ejected: tuple[Backend, ...] = ()
    pods: tuple[Backend, ...] = ()
    has_selector: bool = False

    @property
    def protocol(self) -> Protocol:
        """The transport protocol."""
        return self.name.protocol

    def policy(self, kind: FrontendKind) -> Policy:
        """What each class of source gets from a kind of frontend."""
        return self.internal if kind is FrontendKind.CLUSTER_IP else self.external

    def backends(self, scope: Scope) -> tuple[Backend, ...]:
        """The backends of a scope."""
        return self.local if scope is Scope.LOCAL else self.cluster

    def refusal(self, scope: Scope) -> Refusal | None:
        """What happens to packets when a scope has no backends; None when it has some."""
        if self.backends(scope):
            return None
        return Refusal.DROP if self.has_endpoints else Refusal.REJECT

    def serves(self, kind: FrontendKind) -> bool:
        """Whether any source gets an endpoint from a kind of frontend."""
        return any(map(self.backends, self.policy(kind).scopes))

    def key(self, frontend: Frontend) -> FrontendKey:
        """The destination that leads to one of the frontends."""
        return FrontendKey(frontend.address, self.name.protocol, frontend.port)

    def keys(self) -> Iterator[FrontendKey]:
        """The destinations that lead here."""
        return map(self.key, self.frontends)

    def find(self, key: FrontendKey) -> Frontend | None:
        """The frontend behind a destination; the strictest kind when two share an address."""
        found = [frontend for frontend in self.frontends if self.key(frontend) == key]
        return min(found, key=lambda frontend: PRECEDENCE[frontend.kind], default=None)

    def addresses(self, kind: FrontendKind) -> tuple[str, ...]:
        """The addresses of one kind."""
        return tuple(f.address for f in self.frontends if f.kind is kind)


class HealthCheck(msgspec.Struct, frozen=True):
    """What a service's health-check port on this node reports to load balancers."""

    port: int
    local_endpoints: int


class Table:
    """The entries of one family, found by name and by destination.

    It is the only value here that changes in place: a copy would cost as much as there is, and a
    sync should cost as much as changed. Only `diff.patch` writes to it. Between the steps of a
    change an entry is as before or as after, and some of its destinations may not be found.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.entries: dict[ServicePortName, Entry] = {}
        self.health_checks: dict[ServiceName, HealthCheck] = {}
        self._names: dict[FrontendKey, ServicePortName] = {}
        self._cluster_ips: Counter[str] = Counter()
        self._service_ips: Counter[str] = Counter()

    def put(self, entry: Entry) -> None:
        """Add the entry, or replace the one of its name."""
        finish(self.put_in_steps(entry))

    def put_in_steps(self, entry: Entry) -> Steps[None]:
        """Add the entry, or replace the one of its name."""
        before = self.entries.get(entry.name)
        self.entries[entry.name] = entry
        if before is not None:
            if before.frontends == entry.frontends:
                return  # the usual case: only its endpoints changed
            yield from self._remove_keys(before)
        for start in range(0, len(entry.frontends), PART):
            if start:
                yield
            for frontend in entry.frontends[start : start + PART]:
                self._names[entry.key(frontend)] = entry.name
                for counter in self._counters(frontend):
                    counter[frontend.address] += 1

    def remove(self, name: ServicePortName) -> None:
        """Remove the entry of that name, if there is one."""
        finish(self.remove_in_steps(name))

    def remove_in_steps(self, name: ServicePortName) -> Steps[None]:
        """Remove the entry of that name, if there is one."""
        entry = self.entries.get(name)
        if entry is not None:
            yield from self._remove_keys(entry)
            del self.entries[name]

    def _remove_keys(self, entry: Entry) -> Steps[None]:
        """Remove the destinations of an entry."""
        for start in range(0, len(entry.frontends), PART):
            if start:
                yield
            for frontend in entry.frontends[start : start + PART]:
                key = entry.key(frontend)
                if self._names.get(key) == entry.name:
                    del self._names[key]
                for counter in self._counters(frontend):
                    counter[frontend.address] -= 1
                    if not counter[frontend.address]:
                        del counter[frontend.address]

    def _counters(self, frontend: Frontend) -> Iterator[Counter[str]]:
        """Addresses are shared by ports, so they are counted."""
        if frontend.kind is FrontendKind.CLUSTER_IP:
            yield self._cluster_ips
        if frontend.address:
            yield self._service_ips

    def find(self, key: FrontendKey) -> Entry | None:
        """The entry that a destination leads to."""
        name = self._names.get(key)
        return None if name is None else self.entries[name]

    def health_check_port(self, name: ServicePortName) -> int:
        """The health-check port of the Service of a service port; 0 without one."""
        check = self.health_checks.get(name.owner)
        return check.port if check else 0

    def destinations(self, address: str) -> list[FrontendKey]:
        """All destinations of services at an address, in order."""
        if address not in self._service_ips:
            return []
        return sorted([key for key in self._names if key.address == address])

    def is_cluster_ip(self, address: str) -> bool:
        """Whether some service port, with or without endpoints, has this cluster IP."""
        return address in self._cluster_ips

    def is_service_ip(self, address: str) -> bool:
        """Whether some service port has this address, as cluster IP or otherwise."""
        return address in self._service_ips

    def cluster_ips(self) -> Iterable[str]:
        """The cluster IPs in use."""
        return self._cluster_ips.keys()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.family is other.family
            and self.entries == other.entries
            and self.health_checks == other.health_checks
            and self._names == other._names
            and self._service_ips == other._service_ips
        )

    __hash__ = None  # type: ignore[assignment]  # it changes in place
