"""Connections through the proxy, one after another or many at once, and their outcomes."""

import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from demo.cluster import Frontend, Pod
from lab.dialer import SECONDS, Dialer
from lab.network import Network
from lab.outcome import Fate, Outcome, Probe
from lab.plan import HOSTS, crowd


class Client(msgspec.Struct, frozen=True):
    """A client: a host of the lab, and one of its addresses."""

    host: str
    address: str


SHOPPER = Client("P", HOSTS["P"].ipv4)
CUSTOMER = Client("X", HOSTS["X"].ipv4)
STRANGER = Client("Y", HOSTS["Y"].ipv4)


def visitors(count: int) -> list[Client]:
    """Clients from outside, each with an address of its own."""
    return [Client("X", crowd(number)) for number in range(count)]


class Traffic:
    """Sends connections, and counts those that were let in for each frontend."""

    def __init__(self, network: Network) -> None:
        self._dialer = Dialer(network)
        self.sent = 0
        self.let_in: Counter[Frontend] = Counter()

    def send(
        self, clients: Sequence[Client], frontend: Frontend, seconds: float = SECONDS
    ) -> list[Outcome]:
        """What became of one connection of each client, all of them at once."""
        outcomes = self._dialer.dial([_probe(client, frontend) for client in clients], seconds)
        self.sent += len(outcomes)
        self.let_in[frontend] += sum(outcome.fate is not Fate.SILENT for outcome in outcomes)
        return outcomes

    def open(self, client: Client, frontend: Frontend) -> socket.socket:
        """A connection that is about to be made, and stays open."""
        self.sent += 1
        return self._dialer.open(_probe(client, frontend))


def _probe(client: Client, frontend: Frontend) -> Probe:
    return Probe(client.host, client.address, frontend.address, frontend.port, frontend.protocol)


def pod_of(outcome: Outcome, pods: Iterable[Pod]) -> Pod | None:
    """Which of the pods answered; None for none of them."""
    at = outcome.at.address if outcome.at else ""
    return next((pod for pod in pods if pod.address == at), None)


class Tally:
    """Which pods answered, batch by batch."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self.pods = pods
        self.history: list[Counter[Pod]] = []
        self.times: list[float] = []
        self.failures: list[str] = []

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """One more batch."""
        batch: Counter[Pod] = Counter()
        for outcome in outcomes:
            pod = pod_of(outcome, self.pods)
            if pod is None:
                self.failures.append(str(outcome))
            else:
                batch[pod] += 1
        self.history.append(batch)
        self.times.append(time.monotonic())

    def last(self, pod: Pod) -> float:
        """When a pod answered last."""
        answered = (at for at, batch in zip(self.times, self.history, strict=True) if batch[pod])
        return max(answered, default=0.0)

    @property
    def answers(self) -> Counter[Pod]:
        """The answers of each pod so far."""
        return sum(self.history, Counter())

    @property
    def connections(self) -> int:
        """How many there were, failed ones included."""
        return self.answers.total() + len(self.failures)
