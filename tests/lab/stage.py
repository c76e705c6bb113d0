"""The lab as a test sees it: put documents, dial, compare, restart.

To look around while a test stands still (in a debugger, say), as the user who runs it:
`nsenter -t PID -U -m -n --preserve-credentials ip netns exec kestrel nft list ruleset`.
"""

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec

from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.linux.links import interface_addresses
from kubeproxy.linux.tools import RuleKind
from lab.compare import compare, report
from lab.connection import Connection, Flow
from lab.dialer import Dialer
from lab.documents import kestrel, service_cidr
from lab.expectation import Expectation, expectation
from lab.network import Network
from lab.outcome import Outcome, Probe
from lab.pairs import SOURCES, Pair, all_pairs
from lab.plan import CLUSTER_CIDR, CROWD_SIZE, HOSTS, crowd
from lab.programmer import DaemonProcess, Programmer
from lab.relayed import settle
from lab.sentinel import send_sentinels
from lab.trial import Trial
from world import Document, Mode

MOST_RULES = 60
CLUSTER_CIDR_FLAG = "--cluster-cidr=" + ",".join(CLUSTER_CIDR[family] for family in Family)


class Variant(msgspec.Struct, frozen=True):
    """A way to program the kernel that every scenario is run with."""

    name: str
    mode: Mode
    flags: tuple[str, ...]
    listing: tuple[str, ...]
    """The command that shows the rules."""
    flush: tuple[tuple[str, ...], ...]
    """The commands that leave no rule behind."""
    device: str = ""
    """The device of kestrel that has addresses of services."""
    lists_each_change: bool = True
    """Whether the rules are listed after every change, to prove that this works."""
    programs: RuleKind | None = None
    """Which iptables programs are in PATH; None leaves that to the system."""


NFTABLES = Variant(
    "nftables",
    Mode.NFTABLES,
    ("--proxy-mode=nftables",),
    ("nft", "-a", "list", "ruleset"),
    (("nft", "flush", "ruleset"),),
)

USERSPACE = Variant(
    "userspace",
    Mode.USERSPACE,
    ("--proxy-mode=userspace",),
    ("nft", "-a", "list", "ruleset"),
    (("nft", "flush", "ruleset"),),
)


class Lab:
    """A network, hosts that answer in it, and what programs kestrel's kernel."""

    def __init__(self, network: Network, programmer: Programmer, variant: Variant) -> None:
        self.network = network
        self.variant = variant
        self._relays = variant.mode.quirks.relays
        self._settle = settle if self._relays else send_sentinels
        self.dialer = Dialer(network, self._settle)
        self.documents: tuple[Mapping[str, object], ...] = ()
        self._programmer = programmer
        self._flags: tuple[str, ...] | None = None
        self._open: list[Connection | Flow] = []

    @property
    def is_running(self) -> bool:
        """Whether there is a proxy."""
        return self._flags is not None

    @property
    def daemon(self) -> DaemonProcess:
        """The process that programs the kernel, where it is one."""
        assert isinstance(self._programmer, DaemonProcess)
        return self._programmer

    @property
    def socket(self) -> Path:
        """Where the daemon answers questions."""
        return self.daemon.socket

    def run(self, *flags: str, documents: Iterable[Document] = (), cidr: bool = True) -> None:
        """Have the proxy run with these flags and documents, as it is if it runs with them.

        Without `cidr` there is no --cluster-cidr: pods cannot be recognised by their address.
        """
        wanted = (*self.variant.flags, *([CLUSTER_CIDR_FLAG] if cidr else []), *flags)
        if wanted == self._flags:
            self.put(*documents)
            return
        self.stop()
        self.documents = (kestrel(), service_cidr(), *documents)
        self._start(wanted)
        self._flags = wanted
        self._check_listing()

    def put(self, *documents: Document) -> None:
        """These are all Services and slices from now on; returns when that is programmed."""
        self.documents = (kestrel(), service_cidr(), *documents)
        self._programmer.put(self.documents)
        self._check_listing()

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the proxy with the signal, and start it again."""
        assert self._flags is not None
        self._programmer.stop(number)
        self._start(self._flags)

    def _start(self, flags: tuple[str, ...]) -> None:
        """Start the proxy; where it relays, its workers handle packets as responders do."""
        with self.network.on_one_cpu() if self._relays else nullcontext():
            self._programmer.start(flags, self.documents)

    def stop(self) -> None:
        """End the proxy, and leave nothing of it in the kernel."""
        self._flags = None
        self.close_connections()  # while rules translate: the other ends shall know of it
        try:
            self._programmer.stop()
        finally:
            for command in self.variant.flush:
                self.network.node.run(command)
            self.forget_connections()

    def rules(self) -> str:
        """The rules, as the distribution's tool lists them."""
        return self.network.node.run(self.variant.listing)

    def _check_listing(self) -> None:
        if self.variant.lists_each_change:
            self.rules()

    def close_connections(self) -> None:
        """Close what is open."""
        for each in self._open:
            each.close()
        self._open.clear()

    def forget_connections(self) -> None:
        """Close what is open, and empty the connection tracker."""
        self.close_connections()
        self.network.forget_connections()

    def expectation(self) -> Expectation:
        """What should happen to packets now."""
        assert self._flags is not None
        with self.network.node.entered():
            device = self.variant.device
            addresses = {family: interface_addresses(family, device) for family in Family}
            held = {family: interface_addresses(family) for family in Family}
        return expectation(self.documents, self._flags, addresses, held)

    def compare(
        self, pairs: Sequence[Pair] | None = None, sources: Iterable[str] = SOURCES
    ) -> int:
        """Fail unless the kernel does with every pair what `decide` says; how many there were."""
        expected = self.expectation()
        trials = compare(
            self.dialer, expected, all_pairs(expected, sources) if pairs is None else pairs
        )
        text = report(trials)
        if text:
            rules = self._rules_about(trials)
            raise AssertionError(
                f"the kernel disagrees with decide():\n{text}\n\n"
                f"what the proxy said last:\n{self._programmer.said()}\n\n"
                f"rules about these addresses:\n{rules}"
            )
        return len(trials)

    def _rules_about(self, trials: Iterable[Trial]) -> str:
        """The lines of the rule set that name a destination that failed."""
        wrong = {trial.pair.packet.destination for trial in trials if trial.complaint}
        lines = self.rules().splitlines()
        about = [line.strip() for line in lines if not wrong.isdisjoint(re.split(r"[ ,/]", line))]
        return "\n".join(about[:MOST_RULES])

    def dial(
        self, source: str, destination: str, port: int, protocol: Protocol = Protocol.TCP
    ) -> Outcome:
        """What becomes of one connection."""
        return self.dialer.dial([self._probe(source, destination, port, protocol)])[0]

    def dial_crowd(
        self, destination: str, port: int, protocol: Protocol = Protocol.TCP
    ) -> list[str]:
        """Who answers each of the crowd of clients from outside, which dial all at once."""
        family = family_of(destination)
        outcomes = self.dialer.dial(
            [Probe("X", crowd(n, family), destination, port, protocol) for n in range(CROWD_SIZE)]
        )
        return [outcome.who or str(outcome) for outcome in outcomes]

    def connect(
        self, source: str, destination: str, port: int, protocol: Protocol = Protocol.TCP
    ) -> Connection:
        """A connection that stays until the test ends."""
        probe = self._probe(source, destination, port, protocol)
        connection = Connection(self.dialer.open(probe))
        self._open.append(connection)
        return connection

    def flow(self, source: str, destination: str, port: int) -> Flow:
        """A flow of datagrams that stays until the test ends."""
        probe = self._probe(source, destination, port, Protocol.UDP)
        flow = Flow(self.dialer.open(probe), self.network, source, self._settle)
        self._open.append(flow)
        return flow

    def _probe(
        self, source: str, destination: str, port: int, protocol: Protocol = Protocol.TCP
    ) -> Probe:
        family = family_of(destination)
        return Probe(source, HOSTS[source].address(family), destination, port, protocol)
