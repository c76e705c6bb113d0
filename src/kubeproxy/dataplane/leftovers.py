"""What kube-proxy leaves in the kernel, of any release in any mode: whose it is, how it goes.

The listings of the system's tools go in; what to remove comes out. What the kubelet keeps, and
everybody else's, stays as it is. Two chains are made by both: `filter KUBE-FIREWALL` and `nat
KUBE-MARK-DROP`. They are the kubelet's, unless they have no rules and stand beside other chains of
kube-proxy's: then it made them.
"""

import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Protocol
from kubeproxy.linux.netlink.ipvs import ServerKey

DEVICE = "kube-ipvs0"

TABLES = ("mangle", "nat", "filter")
_FIREWALL = "KUBE-FIREWALL"
_MARK = "KUBE-MARK-MASQ"
_OF_USERSPACE_MODE = frozenset(  # until 1.25
    {
        *("KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST"),
        *("KUBE-NODEPORT-CONTAINER", "KUBE-NODEPORT-HOST", "KUBE-NODEPORT-NON-LOCAL"),
    }
)
_ENTRIES = _OF_USERSPACE_MODE | {  # those that built-in chains jump to
    *("KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING"),
    *("KUBE-FORWARD", "KUBE-PROXY-FIREWALL"),
    *("KUBE-NODE-PORT", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER"),
}
_CHAINS = _ENTRIES | {
    *(_MARK, "KUBE-PROXY-CANARY", "KUBE-LOAD-BALANCER", "KUBE-SOURCE-RANGES-FIREWALL"),
    "KUBE-FIRE-WALL",  # of ipvs mode, until 1.10
}
_OLD_FIREWALL = ("nat", _FIREWALL)  # of ipvs mode, from 1.11 to 1.24
_SHARED = frozenset({("filter", _FIREWALL), ("nat", "KUBE-MARK-DROP")})
_OF_THE_KUBELET = frozenset({"KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"})
_CHAIN_OF_A_SERVICE = re.compile(r"KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z2-7]{16}")

_SETS = (
    *("LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "IPVS-IPS"),
    *("LOAD-BALANCER", "LOAD-BALANCER-FW", "LOAD-BALANCER-LOCAL"),
    *("LOAD-BALANCER-SOURCE-IP", "LOAD-BALANCER-SOURCE-CIDR"),
    *("NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP", "NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP"),
    *("NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH", "HEALTH-CHECK-NODE-PORT"),
    *("NODE-PORT-SCTP", "NODE-PORT-LOCAL-SCTP"),  # until 1.15
    "LOAD-BALANCER-MASQ",  # until 1.10
)
_SET_NAME_LENGTH = 31
_SET_NAMES = frozenset(
    f"{prefix}{name}"[:_SET_NAME_LENGTH] for prefix in ("KUBE-", "KUBE-6-") for name in _SETS
)
_NODE_PORT_SETS = {
    f"{prefix}NODE-PORT-{protocol.name}": protocol
    for prefix in ("KUBE-", "KUBE-6-")
    for protocol in Protocol
}

_RULE = re.compile(r"(?:\[\d+:\d+\] )?-A (?P<chain>\S+) (?P<rest>.*)")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_SERVED = re.compile(r"(?P<address>[^,]+),(?P<protocol>tcp|udp|sctp):(?P<port>\d+)")


class Chain(NamedTuple):
    """A chain of iptables, and the table that it is in."""

    table: str
    name: str


class Kept(msgspec.Struct, frozen=True):
    """A chain of kube-proxy that must stay, because these rules of others lead there."""

    chain: str
    rules: tuple[str, ...]


class Removal(msgspec.Struct, frozen=True):
    """How to remove what is kube-proxy's in one table.

    `text` takes it out of force: for `iptables-restore --noflush`, "" when there is nothing to
    do. The chains can then be deleted. `kubelets` are the kubelet's chains.
    """

    table: str
    text: str = ""
    chains: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    kubelets: tuple[str, ...] = ()


class _Table(msgspec.Struct):
    """One table of a listing: chains that are ours, perhaps or for sure, and all rules."""

    name: str = ""
    own: list[str] = []
    kubelets: list[str] = []
    built_in: set[str] = set()
    rules: dict[str, list[str]] = {}


def is_own_chain(table: str, name: str) -> bool:
    """Whether a chain is kube-proxy's and nobody else's, of this release or older ones."""
    return name in _CHAINS or is_chain_of_a_service(name) or (table, name) == _OLD_FIREWALL


def is_kubelets_chain(table: str, name: str) -> bool:
    """Whether a chain is the kubelet's, or may be."""
    return name in _OF_THE_KUBELET or (table, name) in _SHARED


def is_chain_of_a_service(name: str) -> bool:
    """Whether a chain is one that iptables mode has for a service or an endpoint."""
    return _CHAIN_OF_A_SERVICE.fullmatch(name) is not None


def is_chain_of_userspace_mode(name: str) -> bool:
    """Whether a chain is of the mode that kube-proxy had first."""
    return name in _OF_USERSPACE_MODE


def chain_removals(saved: str) -> tuple[Removal, ...]:
    """What `iptables-save` says, with or without counters -> how to remove what is kube-proxy's.

    A chain that others' rules lead to stays, without rules. KUBE-MARK-MASQ then keeps its rule:
    the CNI plugin portmap can be told to mark through it.
    """
    return tuple(map(_removal, _tables(saved)))


def deletion(table: str, chains: Iterable[str]) -> str:
    """How to delete chains that are empty; for `iptables-restore --noflush`."""
    return _restore_text(table, [f"-X {chain}" for chain in chains])


def _restore_text(table: str, lines: Iterable[str]) -> str:
    return "\n".join([f"*{table}", *lines, "COMMIT", ""])


def _removal(table: _Table) -> Removal:
    jumps, used = _foreign_view(table)
    flushed = [
        chain
        for chain in table.own
        if chain not in used or (chain != _MARK and table.rules.get(chain))
    ]
    lines = [f":{chain} - [0:0]" for chain in flushed]
    lines += [f"-D {chain} {rest}" for chain, rest in jumps]
    return Removal(
        table=table.name,
        text=_restore_text(table.name, lines) if lines else "",
        chains=tuple(chain for chain in table.own if chain not in used),
        kept=tuple(Kept(chain, tuple(used[chain])) for chain in table.own if chain in used),
        kubelets=tuple(table.kubelets),
    )


def _tables(saved: str) -> list[_Table]:
    found: list[_Table] = []
    table = _Table()
    for line in saved.split("\n"):
        if line.startswith("*"):
            table = _Table(line[1:])
            if table.name in TABLES:
                found.append(table)
        elif line.startswith(":"):
            _add_chain(table, *line[1:].split()[:2])
        elif match := _RULE.fullmatch(line):
            table.rules.setdefault(match["chain"], []).append(match["rest"])
    if any(table.own for table in found):
        for table in found:
            _take_over(table)
    return found


def _add_chain(table: _Table, chain: str, policy: str) -> None:
    if policy != "-":
        table.built_in.add(chain)
    elif is_own_chain(table.name, chain):
        table.own.append(chain)
    elif is_kubelets_chain(table.name, chain):
        table.kubelets.append(chain)


def _take_over(table: _Table) -> None:
    """Give the chains that the kubelet would have filled to kube-proxy."""
    for chain in tuple(table.kubelets):
        if (table.name, chain) in _SHARED and not table.rules.get(chain):
            table.kubelets.remove(chain)
            table.own.append(chain)


def _foreign_view(table: _Table) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """The jumps of built-in chains to kube-proxy's, and what other rules of others lead to."""
    own = set(table.own)
    entries = (_ENTRIES | {_FIREWALL}) & own
    jumps: list[tuple[str, str]] = []
    used: dict[str, list[str]] = {}
    for chain, rules in table.rules.items():
        if chain in own:
            continue
        for rest in rules:
            targets = _targets(rest)
            if chain in table.built_in and targets & entries:
                jumps.append((chain, rest))
                continue
            for target in targets & own:
                used.setdefault(target, []).append(f"-A {chain} {rest}")
    return jumps, used


def _targets(rule: str) -> set[str]:
    """Where a rule may lead; a comment that looks like it is one quoted word."""
    words = _WORD.findall(rule)
    return {target for option, target in pairwise(words) if option in {"-j", "-g"}}


def own_sets(names: Iterable[str]) -> tuple[str, ...]:
    """The sets of kube-proxy among these."""
    return tuple(name for name in names if name in _SET_NAMES)


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
