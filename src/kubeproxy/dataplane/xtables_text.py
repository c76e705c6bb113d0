"""Texts that iptables and ipvs mode have in common: of programs, rules and metrics."""

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.mode import Metric
from kubeproxy.table.node import NodeView, PodCIDR

PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}

RESTORE_FAILURES = Metric(
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    "Runs of iptables-restore that failed",
)

PAST_FIREWALLS = {
    "firewalls of the node": (
        "KUBE-FORWARD accepts forwarded packets to endpoints and their replies, before the rules"
        " that a firewall has in FORWARD"
    )
}
"""A habit of both modes."""

RuleTables = dict[str, dict[str, list[str]]]
"""Tables with their chains, and the rules of each in their order, as lines `-A CHAIN ...`."""


class BuiltInJump(msgspec.Struct, frozen=True):
    """A rule in a built-in chain that leads to one of ours."""

    table: str
    chain: str
    target: str
    comment: str = ""
    new_only: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The rule, as arguments of `iptables`."""
        state = ("-m", "conntrack", "--ctstate", "NEW") if self.new_only else ()
        comment = ("-m", "comment", "--comment", self.comment) if self.comment else ()
        return (*state, *comment, "-j", self.target)

    @property
    def rule(self) -> str:
        """The rule, as `iptables-save` lists it."""
        return " ".join(f'"{word}"' if " " in word else word for word in self.words)


def pod_match(node: NodeView) -> tuple[str, str]:
    """The option that matches packets of pods, and its value; empty when there is none."""
    detector = node.detector
    if detector is None:
        return "", ""
    if isinstance(detector, PodCIDR):
        return "-s", str(detector.prefix)
    return "-i", f"{detector.name}+" if detector.prefix else detector.name


def tables_in(text: str) -> RuleTables:
    """What `iptables-save` says, or what is meant for `iptables-restore`."""
    tables: RuleTables = {}
    chains: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if line.startswith("-A "):
            chains.setdefault(line.split(" ", 2)[1], []).append(line)
        elif line.startswith(":"):
            chains[line[1:].split(" ", 1)[0]] = []
        elif line.startswith("*"):
            chains = tables[line[1:]] = {}
    return tables
