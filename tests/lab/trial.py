"""One pair under trial: what `decide` says, what was seen so far, and whether the two agree."""

from kubeproxy.base.inet import Protocol
from kubeproxy.table.decide import Action, Choice, Verdict
from kubeproxy.table.node import NodeView
from lab.outcome import Fate, Outcome, Peer, Probe
from lab.pairs import Pair
from lab.plan import HOST_PORTS, HOSTS, WORLD_PORTS
from world import Mode

_NAMES = {address: h.name for h in HOSTS.values() for address in (h.ipv4, h.ipv6)}


class Trial:
    """Feed it outcomes until it is `settled` or has a `complaint`."""

    def __init__(self, pair: Pair, verdict: Verdict, node: NodeView, mode: Mode) -> None:
        self.pair = pair
        self.verdict = verdict
        self.complaint = ""
        self.tries = 0
        self.reached: Peer | None = None
        self._node = node
        self._mode = mode
        self._choices = {Peer(c.backend.address, c.backend.port): c for c in verdict.choices}
        self._mute = {at for at, choice in self._choices.items() if self._is_mute(choice)}
        self._unseen = self._choices.keys() - self._mute

    @property
    def is_settled(self) -> bool:
        """Whether everything that may happen has been seen to happen."""
        return self.tries > 0 and not self._unseen

    @property
    def is_translated(self) -> bool:
        """Whether the packet should reach an endpoint."""
        return bool(self._choices)

    @property
    def probe(self) -> Probe:
        """The packet to send."""
        return self.pair.probe()

    def feed(self, outcome: Outcome) -> None:
        """Take in what became of one more packet."""
        self.tries += 1
        agrees = self._agrees_translated if self.is_translated else self._agrees_untranslated
        if not agrees(outcome):
            self.complaint = str(outcome)

    def give_up(self) -> None:
        """No more tries: whatever did not happen is a complaint."""
        if self._unseen and not self.complaint:
            missing = " ".join(sorted(named(at) for at in self._unseen))
            self.complaint = f"never as expected in {self.tries} tries: {missing}"

    def expected(self) -> str:
        """What should happen, in short: `L1:8080 masq | R1:8080`, `drop`."""
        if not self.is_translated:
            return self.verdict.action.value
        return " | ".join(
            named(at) + (" masq" if choice.masquerade else "")
            for at, choice in self._choices.items()
        )

    def _is_mute(self, choice: Choice) -> bool:
        """Whether the packet comes back to its sender with the sender's address: it is lost."""
        source = self.pair.packet.source
        own = self._node.is_own(source)
        return choice.backend.address == source and not choice.masquerade and not own

    def _agrees_translated(self, outcome: Outcome) -> bool:
        if outcome.fate is Fate.SILENT and self._mute:
            return True
        if outcome.fate is not Fate.ANSWERED or outcome.at is None or outcome.saw is None:
            return False
        choice = self._choices.get(outcome.at)
        if choice is None or outcome.at in self._mute:
            return False
        self.reached = outcome.at
        return self._agrees_masquerade(choice, outcome.at, outcome.sent_from, outcome.saw)

    def _agrees_masquerade(self, choice: Choice, at: Peer, sent_from: Peer, saw: Peer) -> bool:
        if not self._is_masqueraded(choice):
            # A port that by chance another connection has, masqueraded to it, is changed.
            if saw == sent_from or not self._node.is_own(sent_from.address):
                self._unseen.discard(at)
            return saw.address == sent_from.address
        # Masquerading the host can be seen by the new port only, which by chance is the old one;
        # and always is where ipvs mode sees the host reach itself.
        keeps_port = choice.hairpin and self._mode is Mode.IPVS
        if saw != sent_from or keeps_port:
            self._unseen.discard(at)
        return self._node.is_own(saw.address)

    def _is_masqueraded(self, choice: Choice) -> bool:
        """Whether the source is rewritten.

        The kernel does it when a packet leaves the node: one that came in and stays, because a
        process of this host is the endpoint, keeps its source. A proxy that relays is always seen.
        """
        stays = self._node.is_own(choice.backend.address) and self.pair.packet.interface != ""
        return choice.masquerade and (self._mode.quirks.relays or not stays)

    def _agrees_untranslated(self, outcome: Outcome) -> bool:
        match self.verdict.action:
            case Action.DROP:
                return outcome.fate is Fate.SILENT
            case Action.REJECT:
                return outcome.fate is Fate.UNREACHABLE and self._node.is_own(outcome.by)
            case _:
                return self._passed(outcome)

    def _passed(self, outcome: Outcome) -> bool:
        """Whether the packet went where it would go without us, and as it was sent.

        That is a process of the host for an address of the host, else the world behind the
        default route. Where neither of them listens, the kernel there refuses.
        """
        packet = self.pair.packet
        own = self._node.is_own(packet.destination)
        if packet.protocol is None:
            return outcome.fate is Fate.ANSWERED
        world = () if packet.protocol is Protocol.SCTP else WORLD_PORTS
        if packet.port not in (HOST_PORTS if own else world):
            refused = Fate.UNREACHABLE if packet.protocol is Protocol.UDP else Fate.REFUSED
            return outcome.fate is refused
        return (
            outcome.fate is Fate.ANSWERED
            and outcome.who == ("H" if own else "W")
            and outcome.at == Peer(packet.destination, packet.port)
            and self._is_as_sent(outcome)
        )

    def _is_as_sent(self, outcome: Outcome) -> bool:
        """Whether the source is the sender's.

        ipvs mode masquerades the host's own packets to every local address by the port's number:
        only the port shows it, and `decide` does not speak of packets that pass.
        """
        saw, sent_from = outcome.saw, outcome.sent_from
        if self._mode is Mode.IPVS and saw is not None:
            return saw.address == sent_from.address
        return saw == sent_from


def named(at: Peer) -> str:
    """An address and port in short: `L1:8080`."""
    return f"{_NAMES.get(at.address, at.address)}:{at.port}"
