"""Rules of other programs that rely on what a mode writes: found in listings of the rules.

A listing is what `iptables-save` prints, or `nft list ruleset`. Three kinds of rules are found:
those that lead to chains which go away, those that match a mark which is another afterwards, and
those that drop in FORWARD what kube-proxy's chains accept in front of them now.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubeproxy.dataplane.xtables_chains import chain_removals, is_own_chain, values_of
from kubeproxy.plan.wire import ForeignRule

_IPTABLES: Final = re.compile(r"^\*(?:filter|nat|mangle)$", re.MULTILINE)
_RULE: Final = re.compile(r"(?:\[\d+:\d+\] )?-A (\S+) (.*)")
_POLICY: Final = re.compile(r":FORWARD (DROP|REJECT)\b")
_NFT_MARK: Final = re.compile(r"\bmark (?:and|&) (0x[0-9a-f]+|\d+)\b.*", re.IGNORECASE)
_NFT_TABLE: Final = re.compile(r"^table (\S+) (\S+) \{")
_OWN_TABLE: Final = "kube-proxy"
_MANAGED: Final = "managed by iptables-nft"
_REFUSALS: Final = frozenset({"DROP", "REJECT"})


class Reliance(msgspec.Struct, frozen=True):
    """What rules of others may rely on: the marks of both sides, and chains that go away."""

    mark_before: int
    mark_after: int
    loses_chains: bool


def foreign_rules(listings: Iterable[str], reliance: Reliance) -> list[ForeignRule]:
    """The rules of others that would not do any more what they do now."""
    found: dict[ForeignRule, None] = {}
    for text in listings:
        rules = _in_iptables if _IPTABLES.search(text) else _in_nft
        found |= dict.fromkeys(rules(text, reliance))
    return list(found)


def _in_iptables(text: str, reliance: Reliance) -> Iterator[ForeignRule]:
    if reliance.loses_chains:
        for removal in chain_removals(text):
            for chain, rules in removal.kept.items():
                why = f"it leads to {chain}, which goes away"
                yield from (ForeignRule(f"-t {removal.table} {rule}", why) for rule in rules)
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        if reliance.loses_chains and table == "filter" and (policy := _POLICY.match(line)):
            yield ForeignRule(f"-t filter -P FORWARD {policy[1]}", _FORWARD)
        match = _RULE.fullmatch(line)
        if match is None or is_own_chain(table, match[1]):
            continue
        rule = f"-t {table} -A {match[1]} {match[2]}"
        if any(_has(mark, reliance) for mark in values_of(match[2], {"--mark"})):
            yield ForeignRule(rule, _mark(reliance))
        in_forward = (table, match[1]) == ("filter", "FORWARD") and reliance.loses_chains
        if in_forward and _REFUSALS.intersection(values_of(match[2], {"-j"})):
            yield ForeignRule(rule, _FORWARD)


_FORWARD: Final = (
    "KUBE-FORWARD accepts packets to endpoints and their replies in front of it, and goes away:"
    " they need a rule of yours that accepts them"
)


def _in_nft(text: str, reliance: Reliance) -> Iterator[ForeignRule]:
    table, managed = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            managed = _MANAGED in line
        elif begun := _NFT_TABLE.match(line):
            table, skipped = f"{begun[1]} {begun[2]}", managed or begun[2] == _OWN_TABLE
            managed = False
            table = "" if skipped else table
        elif table and (found := _NFT_MARK.search(line)) and _has(found[1], reliance):
            yield ForeignRule(f"table {table}: {line.strip()}", _mark(reliance))


def _has(text: str, reliance: Reliance) -> bool:
    """Whether a match, `VALUE` or `VALUE/MASK`, is about a mark that becomes another one."""
    mask = text.rpartition("/")[2]
    try:
        number = int(mask, 0)
    except ValueError:
        return False
    return reliance.mark_before != reliance.mark_after and bool(number & reliance.mark_before)


def _mark(reliance: Reliance) -> str:
    return (
        f"it matches the mark {reliance.mark_before:#x} of packets that are masqueraded,"
        f" which becomes {reliance.mark_after:#x}"
    )
