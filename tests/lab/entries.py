"""Entries of the forwarding table, written as such: for thousands of changes, without documents.

Their endpoints are those of the farm.
"""

import random
from collections.abc import Iterable

import msgspec

from kubeproxy.base.inet import Family, Prefix, Protocol, network
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
)
from kubeproxy.table.policy import policies
from lab.farm import crop
from lab.plan import cluster_ip, external_ip, vip

_RANGES = {
    Family.IPV4: ("192.0.2.0", 24, 32),
    Family.IPV6: ("2001:db8:ff::", 60, 128),
}


def service_ip(number: int, family: Family = Family.IPV4) -> str:
    """As `cluster_ip`, for thousands of services."""
    if family is Family.IPV6:
        return cluster_ip(number, family)
    return f"10.112.{number >> 8}.{number & 255}"


def served(
    number: int,
    backends: Iterable[Backend],
    family: Family = Family.IPV4,
    protocol: Protocol = Protocol.TCP,
) -> Entry:
    """A service with a cluster IP, and these endpoints."""
    found = tuple(backends)
    return Entry(
        ServicePortName("farm", f"shop-{number}", "web", protocol),
        (Frontend(FrontendKind.CLUSTER_IP, service_ip(number, family), 80),),
        cluster=found,
        has_endpoints=bool(found),
        serving=found if protocol is Protocol.UDP else (),
    )


def exposed(entry: Entry, number: int, family: Family = Family.IPV4) -> Entry:
    """The service with an address of each kind."""
    frontends = (
        *entry.frontends,
        Frontend(FrontendKind.LOAD_BALANCER, vip(number, family), 80),
        Frontend(FrontendKind.EXTERNAL_IP, external_ip(number, family), 80),
        Frontend(FrontendKind.NODE_PORT, "", 30000 + number),
    )
    return msgspec.structs.replace(entry, frontends=frontends, externally_accessible=True)


class Chance:
    """Services of every kind; the same seed gives the same ones."""

    def __init__(self, seed: int, family: Family) -> None:
        self._random = random.Random(seed)
        self._family = family

    def entry(self, number: int) -> Entry:
        """Some service with that number."""
        chance = self._random
        backends = tuple(
            msgspec.structs.replace(crop(each, self._family), local=chance.random() < 0.4)
            for each in chance.sample(range(50), chance.choice((0, 1, 1, 2, 3, 5, 8, 13)))
        )
        entry = served(number, backends, self._family, chance.choice(list(Protocol)))
        if chance.random() < 0.6:
            entry = exposed(entry, number, self._family)
        internal, external = policies(
            internal_local=chance.random() < 0.2, external_local=chance.random() < 0.3
        )
        return msgspec.structs.replace(
            entry,
            local=tuple(backend for backend in backends if backend.local),
            internal=internal,
            external=external,
            affinity_seconds=chance.choice((0, 0, 0, 10, 10800)),
            balance=chance.choice((Balance.RANDOM, Balance.RANDOM, *Balance)),
            source_ranges=chance.choice((None, None, self._ranges())),
        )

    def _ranges(self) -> tuple[Prefix, ...]:
        address, shortest, longest = _RANGES[self._family]
        lengths = self._random.choices(range(shortest, longest + 1), k=2)
        return tuple({network(address, length): None for length in lengths})

    def change(self, entries: dict[int, Entry]) -> None:
        """One service comes, goes or becomes another."""
        number = self._random.randint(1, 30)
        if number in entries and self._random.random() < 0.2:
            del entries[number]
        else:
            entries[number] = self.entry(number)
