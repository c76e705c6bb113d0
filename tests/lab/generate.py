"""Clusters and changes of them, drawn by a seeded generator: all that can go together does."""

import random

import msgspec

from lab.deploy import Address, Port, affinity, deploy
from lab.plan import ENDPOINT_PORTS
from kubeproxy.inet import Protocol
from world import Document

_POLICIES = ("Cluster", "Cluster", "Local")
_STATES = ("", "", "", "", ":draining", ":stopped", ":unready")
_ZONES = ("", "", "@z-east", "@z-west")
_PODS = ("L1", "L2", "L3", "R1", "R2")
_RANGES = (None, None, None, ["192.0.2.0/25"], ["198.51.100.0/24", "192.0.2.0/25"])
_TARGETS = tuple(port for port in ENDPOINT_PORTS if port != 53)
_MOST = 6


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
        what = self._random.choice(("endpoints", "endpoints", "endpoints", "spec", "all", "delete"))
        if what == "delete":
            return f"delete {number}", {n: d for n, d in cluster.items() if n != number}
        new = self._deployment(number)
        if what == "endpoints":
            new = msgspec.structs.replace(old, endpoints=self._endpoints())
        elif what == "spec":
            new = msgspec.structs.replace(old, spec=self._spec(), address=self._address(number))
        return f"change {what} of {number}", {**cluster, number: new}

    def choose(self, count: int, among: "list[Item]") -> "list[Item]":
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
