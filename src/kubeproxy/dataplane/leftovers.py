"""What iptables and ipvs mode leave in the kernel, whoever wrote it: ours, and how it is removed.

The listings of the system's tools go in; what to remove comes out. Chains that the kubelet keeps
(KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT), and everybody else's, stay as they are.
"""

import re
from collections.abc import Collection, Iterable
from itertools import pairwise

import msgspec

from kubeproxy.inet import PROTOCOL_BY_NAME, Protocol
from kubeproxy.netlink.ipvs import ServerKey

DEVICE = "kube-ipvs0"

TABLES = ("mangle", "nat", "filter")
_ENTRIES = frozenset(  # those that built-in chains jump to
    {
        *("KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING"),
        *("KUBE-FORWARD", "KUBE-PROXY-FIREWALL"),
        *("KUBE-NODE-PORT", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER"),
    }
)
_MARK = "KUBE-MARK-MASQ"
_CHAINS = _ENTRIES | {
    *(_MARK, "KUBE-PROXY-CANARY", "KUBE-LOAD-BALANCER", "KUBE-SOURCE-RANGES-FIREWALL")
}
_CHAIN_OF_A_SERVICE = re.compile(r"KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z2-7]{16}")

_SETS = (
    *("LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "IPVS-IPS"),
    *("LOAD-BALANCER", "LOAD-BALANCER-FW", "LOAD-BALANCER-LOCAL"),
    *("LOAD-BALANCER-SOURCE-IP", "LOAD-BALANCER-SOURCE-CIDR"),
    *("NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP", "NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP"),
    *("NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH", "HEALTH-CHECK-NODE-PORT"),
)
_SET_NAME_LENGTH = 31
_SET_NAMES = frozenset(
    f"{prefix}{name}"[:_SET_NAME_LENGTH] for prefix in ("KUBE-", "KUBE-6-") for name in _SETS
)
_NODE_PORT_SETS = {
    f"{prefix}NODE-PORT-{protocol.name}": protocol
    for prefix in ("KUBE-", "KUBE-6-")
    for protocol in (Protocol.TCP, Protocol.UDP)
}

_RULE = re.compile(r"(?:\[\d+:\d+\] )?-A (?P<chain>\S+) (?P<rest>.*)")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_SERVED = re.compile(r"(?P<address>[^,]+),(?P<protocol>tcp|udp|sctp):(?P<port>\d+)")


class Removal(msgspec.Struct, frozen=True):
    """How to remove the chains of one family from one iptables backend.

    `text` is for `iptables-restore --noflush`, "" when there is nothing to do. `kept` are chains
    that must stay, because rules of others lead there.
    """

    text: str = ""
    chains: int = 0
    kept: tuple[str, ...] = ()


class _Table(msgspec.Struct):
    """One table of a listing: its chains that are kube-proxy's, and all rules by their chain."""

    own: list[str] = []
    built_in: set[str] = set()
    rules: dict[str, list[str]] = {}


def is_own_chain(name: str) -> bool:
    """Whether a chain is kube-proxy's, in iptables or ipvs mode, this release or older ones."""
    return name in _CHAINS or is_chain_of_a_service(name)


def is_chain_of_a_service(name: str) -> bool:
    """Whether a chain is one that iptables mode has for a service or an endpoint."""
    return _CHAIN_OF_A_SERVICE.fullmatch(name) is not None


def chain_removal(saved: str) -> Removal:
    """What `iptables-save` says, with or without counters -> how to remove what is kube-proxy's.

    A chain that others' rules lead to stays, without rules. KUBE-MARK-MASQ then keeps its rule:
    the CNI plugin portmap can be told to mark through it.
    """
    text, chains, kept = "", 0, []
    for name, table in _tables(saved).items():
        jumps, used = _foreign_view(table)
        flushed = [
            chain
            for chain in table.own
            if chain not in used or (chain != _MARK and table.rules.get(chain))
        ]
        removed = [chain for chain in table.own if chain not in used]
        kept += [f"{name} {chain}" for chain in table.own if chain in used]
        if not flushed and not jumps:
            continue
        chains += len(removed)
        lines = [f"*{name}", *(f":{chain} - [0:0]" for chain in flushed)]
        lines += [f"-D {chain} {rest}" for chain, rest in jumps]
        lines += [*(f"-X {chain}" for chain in removed), "COMMIT", ""]
        text += "\n".join(lines)
    return Removal(text, chains, tuple(kept))


def _tables(saved: str) -> dict[str, _Table]:
    found: dict[str, _Table] = {}
    table = _Table()
    for line in saved.split("\n"):
        if line.startswith("*"):
            table = _Table()
            if line[1:] in TABLES:
                found[line[1:]] = table
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            if policy != "-":
                table.built_in.add(chain)
            elif is_own_chain(chain):
                table.own.append(chain)
        elif match := _RULE.fullmatch(line):
            table.rules.setdefault(match["chain"], []).append(match["rest"])
    return found


def _foreign_view(table: _Table) -> tuple[list[tuple[str, str]], set[str]]:
    """The jumps of built-in chains to kube-proxy's, and what all other rules of others lead to."""
    jumps: list[tuple[str, str]] = []
    used: set[str] = set()
    for chain, rules in table.rules.items():
        if is_own_chain(chain):
            continue
        for rest in rules:
            targets = _targets(rest)
            if chain in table.built_in and targets & _ENTRIES:
                jumps.append((chain, rest))
            else:
                used |= targets
    return jumps, used


def _targets(rule: str) -> set[str]:
    """Where a rule may lead; a comment that looks like it is one quoted word."""
    words = _WORD.findall(rule)
    return {target for option, target in pairwise(words) if option in {"-j", "-g"}}


def own_sets(names: str) -> tuple[str, ...]:
    """What `ipset list -n` says -> the sets of kube-proxy."""
    return tuple(name for name in names.split("\n") if name in _SET_NAMES)


def own_servers(
    servers: Iterable[ServerKey], saved_sets: str, bound: Collection[str]
) -> tuple[ServerKey, ...]:
    """The virtual servers that kube-proxy made.

    It notes each in a set (`saved_sets` is what `ipset save` says of its sets), and binds the
    addresses of all but node ports to its device.
    """
    noted, node_ports = _notes(saved_sets)
    return tuple(
        server
        for server in servers
        if server.address in bound
        or server in noted
        or (server.protocol, server.port) in node_ports
    )


def _notes(saved_sets: str) -> tuple[set[ServerKey], set[tuple[Protocol, int]]]:
    """The (address, protocol, port) entries of the sets, and the ports on node addresses."""
    noted: set[ServerKey] = set()
    node_ports: set[tuple[Protocol, int]] = set()
    for line in saved_sets.split("\n"):
        if not line.startswith("add "):
            continue
        _, name, entry = line.split()[:3]
        if name in _NODE_PORT_SETS:
            node_ports.add((_NODE_PORT_SETS[name], int(entry)))
        elif name in _SET_NAMES and (match := _SERVED.fullmatch(entry)):
            protocol = PROTOCOL_BY_NAME[match["protocol"].upper()]
            noted.add(ServerKey(protocol, match["address"], int(match["port"])))
    return noted, node_ports
