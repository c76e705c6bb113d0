"""Clusters and changes of them, drawn by a seeded generator: all that can go together does."""

import random
from typing import TypeVar

import msgspec

from lab.deploy import SCTP, TCP, UDP, Address, Port, affinity, deploy
from lab.plan import HAS_SCTP, HOST_PORTS
from world import Document

Item = TypeVar("Item")

_POLICIES = ("Cluster", "Cluster", "Local")
_STATES = ("", "", "", "", ":draining", ":stopped", ":unready")
_ZONES = ("", "", "@z-east", "@z-west")
_PODS = ("L1", "L2", "L3", "R1", "R2")
_RANGES = (None, None, None, ["192.0.2.0/25"], ["198.51.100.0/24", "192.0.2.0/25"])
_TARGETS = (8080, 8081, 8443)
_MOST = 6
_CHANGES = ("endpoints", "endpoints", "endpoints", "spec", "all", "delete")


class Deployment(msgspec.Struct, frozen=True):
    """A service with endpoints, as `deploy` takes it."""

    name: str
    address: Address
    endpoints: str
    ports: tuple[Port, ...]
    spec: Document

    def documents(self) -> list[Document]:
        return deploy(self.name, self.address, self.endpoints, self.ports, self.spec)


Cluster = dict[int, Deployment]
"""Deployments by their number."""


class Generator:
    """The same seed gives the same cluster and the same changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def cluster(self) -> Cluster:
        """A handful of services."""
        return {number: self._deployment(number) for number in range(1, _MOST)}

    def change(self, cluster: Cluster) -> tuple[str, Cluster]:
        """What happens next, in words, and the cluster afterwards."""
        number = self._random.randint(1, _MOST)
        old = cluster.get(number)
        if old is None:
            return f"add {number}", {**cluster, number: self._deployment(number)}
        what = self._random.choice(_CHANGES)
        if what == "delete":
            return f"delete {number}", {n: d for n, d in cluster.items() if n != number}
        new = self._deployment(number)
        if what == "endpoints":
            new = msgspec.structs.replace(old, endpoints=self._endpoints())
        elif what == "spec":
            new = msgspec.structs.replace(old, spec=self._spec(), address=self._address(number))
        return f"change {what} of {number}", {**cluster, number: new}

    def choose(self, count: int, among: list[Item]) -> list[Item]:
        """Some of them, in their order."""
        if len(among) <= count:
            return among
        chosen = sorted(self._random.sample(range(len(among)), count))
        return [among[index] for index in chosen]

    def chance(self, of: float) -> bool:
        """Whether something that happens so often happens now."""
        return self._random.random() < of

    def _deployment(self, number: int) -> Deployment:
        return Deployment(
            name=f"shop-{number}",
            address=self._address(number),
            endpoints=self._endpoints(),
            ports=self._ports(number),
            spec=self._spec(),
        )

    def _address(self, number: int) -> Address:
        return Address(number, balanced=self.chance(0.6), external=self.chance(0.4))

    def _endpoints(self) -> str:
        """Some pods in some state, rarely the host; with hints for all of them or for some."""
        hinted = self.chance(0.3)
        pods = self.choose(self._random.randint(0, len(_PODS)), list(_PODS))
        texts = [
            pod + self._random.choice(_STATES) + (self._random.choice(_ZONES) if hinted else "")
            for pod in pods
        ]
        return " ".join([*texts, *(["H"] if self.chance(0.15) else [])])

    def _ports(self, number: int) -> tuple[Port, ...]:
        """One protocol or several; the node ports are the service's own."""
        exposed = self.chance(0.6)
        ports: tuple[Port, ...] = (
            Port(80, self._random.choice(_TARGETS), HOST_PORTS[number] if exposed else 0, TCP),
            Port(53, self._random.choice(_TARGETS), HOST_PORTS[-number] if exposed else 0, UDP),
        )
        if HAS_SCTP:
            target = self._random.choice(_TARGETS)
            ports = (*ports, Port(81, target, HOST_PORTS[-number] if exposed else 0, SCTP))
        return tuple(self.choose(self._random.choice((1, 1, len(ports))), list(ports)))

    def _spec(self) -> Document:
        spec: Document = {
            "internalTrafficPolicy": self._random.choice(_POLICIES),
            "externalTrafficPolicy": self._random.choice(_POLICIES),
        }
        ranges = self._random.choice(_RANGES)
        if ranges is not None:
            spec["loadBalancerSourceRanges"] = ranges
        return {**spec, **(affinity() if self.chance(0.2) else {})}
