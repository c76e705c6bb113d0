"""The iptables chains of kube-proxy, of any release and mode: which they are, how to remove them.

The output of `iptables-save` goes in, and what to remove comes out. Chains of the kubelet and of
others stay. Two chains are made by both: `filter KUBE-FIREWALL` and `nat KUBE-MARK-DROP`. They
count as the kubelet's, unless they have no rules and other chains of kube-proxy are present.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kubeproxy.dataplane.leftovers import CLEAN_UP, REMOVED, TAKEN_OVER, Fate, Leftover

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
HINT = "KUBE-IPTABLES-HINT"
"""The chain by which the kubelet shows which kind of iptables it uses (KEP-3178)."""
OF_THE_KUBELET = frozenset({"KUBE-KUBELET-CANARY", HINT})
_CHAIN_OF_A_SERVICE = re.compile(r"KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z2-7]{16}")

# Chains that ipvs mode has, and no other.
_OF_IPVS = frozenset({"KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-IPVS-FILTER"})

_RULE = re.compile(r"(?:\[\d+:\d+\] )?-A (?P<chain>\S+) (?P<rest>.*)")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


class ChainName(NamedTuple):
    """A chain of iptables, and the table that it is in."""

    table: str
    name: str


class Removal(msgspec.Struct, frozen=True):
    """How to remove what is kube-proxy's in one table.

    `text` takes it out of force: for `iptables-restore --noflush`, "" when there is nothing to
    do. The chains can then be deleted. Those that stay are in `kept`, with the rules of others
    that jump to them; `kubelets` are the kubelet's chains.
    """

    table: str
    text: str = ""
    chains: tuple[str, ...] = ()
    kept: Mapping[str, tuple[str, ...]] = {}
    kubelets: tuple[str, ...] = ()


class _Table(msgspec.Struct):
    """One table of a listing: chains that are ours, perhaps or for sure, and all rules."""

    name: str = ""
    own: list[str] = []
    kubelets: list[str] = []
    built_in: set[str] = set()
    rules: dict[str, list[str]] = {}


def is_own_chain(table: str, name: str) -> bool:
    """Whether a chain is kube-proxy's alone, of this release or an older one."""
    return name in _CHAINS or is_chain_of_a_service(name) or (table, name) == _OLD_FIREWALL


def is_kubelets_chain(table: str, name: str) -> bool:
    """Whether a chain is the kubelet's, or may be."""
    return name in OF_THE_KUBELET or (table, name) in _SHARED


def is_chain_of_a_service(name: str) -> bool:
    """Whether a chain is one that iptables mode has for a service or an endpoint."""
    return _CHAIN_OF_A_SERVICE.fullmatch(name) is not None


class Owned(NamedTuple):
    """Chains of kube-proxy, by the mode that made them."""

    userspace: tuple[str, ...]
    iptables: tuple[str, ...]
    ipvs: tuple[str, ...]


def own_by_mode(names: Iterable[str]) -> Owned:
    """Chains of kube-proxy, by mode. Where ipvs mode ran, those that both modes have are its."""
    found = tuple(names)
    old = tuple(name for name in found if name in _OF_USERSPACE_MODE)
    of_services = tuple(name for name in found if is_chain_of_a_service(name))
    own = tuple(name for name in found if name not in {*old, *of_services})
    if _OF_IPVS.isdisjoint(own):
        return Owned(old, (*own, *of_services), ())
    return Owned(old, of_services, own)


class Chains(msgspec.Struct, frozen=True):
    """The chains of kube-proxy in one kind of iptables, nft or legacy.

    `has_hint` says that the kubelet uses this kind.
    `removable` says that the programs that can remove them are installed.
    """

    kind: str
    own: tuple[str, ...] = ()
    has_hint: bool = False
    removable: bool = True


def chain_leftover(chains: Chains, kind: str, mode: str) -> Leftover:
    """The chains of one mode; `kind` is that of the programs here, "" where there are none."""
    removed, clean_up = REMOVED, CLEAN_UP
    if not chains.removable:
        programs = f"iptables-{chains.kind}-save and -restore, and ip6tables' too"
        install = f"install iptables ({programs})"
        removed = Fate("nothing here can remove them", install)
        clean_up = f"{install}; then {CLEAN_UP}"
    kept, unused = TAKEN_OVER, Fate("those that are not used any more stay", clean_up)
    if not kind:
        kept = Fate(f"taken over by iptables-{chains.kind}, once that is installed")
    elif chains.kind != kind:
        beside = f"they stay beside those of iptables-{kind}, and both are in force"
        kept = Fate(beside, f"use iptables-{chains.kind} for the proxy too, or {clean_up}")
        unused = Fate(beside, clean_up)
    there = f"{len(chains.own)} of {mode} mode"
    return Leftover(f"iptables-{chains.kind} chains", there, kept, removed, unused)


def chain_removals(saved: str) -> tuple[Removal, ...]:
    """What `iptables-save` says, with or without counters -> how to remove what is kube-proxy's.

    A chain that others' rules lead to stays, without rules. KUBE-MARK-MASQ then keeps its rule:
    the CNI plugin portmap can be configured to mark through it.
    """
    tables = _tables(saved)
    if any(table.own for table in tables):
        for table in tables:
            _take_over(table)
    return tuple(map(_removal, tables))


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
        kept={chain: tuple(used[chain]) for chain in table.own if chain in used},
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
            chain, policy = line[1:].split()[:2]
            if policy != "-":
                table.built_in.add(chain)
            elif is_own_chain(table.name, chain):
                table.own.append(chain)
            elif is_kubelets_chain(table.name, chain):
                table.kubelets.append(chain)
        elif match := _RULE.fullmatch(line):
            table.rules.setdefault(match["chain"], []).append(match["rest"])
    return found


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
            targets = set(values_of(rest, {"-j", "-g"}))
            if chain in table.built_in and targets & entries:
                jumps.append((chain, rest))
                continue
            for target in targets & own:
                used.setdefault(target, []).append(f"-A {chain} {rest}")
    return jumps, used


def values_of(rule: str, options: Container[str]) -> Iterator[str]:
    """The values of some options of a rule; a comment that looks like one is one quoted word."""
    return (value for option, value in pairwise(_WORD.findall(rule)) if option in options)
