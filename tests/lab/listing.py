"""What `nft list` prints, taken apart so that two listings can be compared.

Elements have no order and counters count: of both only what is meant is kept.
"""

import re
from collections.abc import Mapping
from functools import partial

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace

KEYWORD = {Family.IPV4: "ip", Family.IPV6: "ip6"}

_ELEMENTS = re.compile(r"elements = \{(.*?)\}", re.DOTALL)
_COUNTS = re.compile(r"packets \d+ bytes \d+")
_BLOCK = re.compile(r"^\t(\w+ [\w/-]+) \{\n(.*?)^\t\}", re.DOTALL | re.MULTILINE)
_TABLE_LINE = re.compile(r"^\t(comment .*|flags .*)$", re.MULTILINE)
_PLACE = re.compile(r" \. 0:[0-9a-f]+( counter packets 0 bytes 0)? : (?=[0-9a-f.:]+ \. \d+$)")
_NUMBER = re.compile(r" : [0-9a-f]+:[0-9a-f]+$")
_CHAIN_OF = re.compile(r"([0-9a-f]+:[0-9a-f]+)( : goto \S+)")
_CHAINS = {
    "map service-choices": "map choice-chains",
    "map nodeport-choices": "map choice-chains",
    "map remember-services": "map remember-chains",
    "map remember-nodeports": "map remember-chains",
}
_IN_LIST = re.compile(r"[0-9a-f]+:[0-9a-f]+ \. ")
# One for each way of choosing that was ever in use: they may outlive their last user.
_CHOICE = re.compile(r"chain (masquerade-|local-\d+-of-)?(nodeport-)?(pick|remember)-")

Blocks = Mapping[str, frozenset[str]]


def list_table(namespace: Namespace, family: Family) -> str:
    """Our table, as the distribution's nft lists it."""
    return namespace.run(["nft", "list", "table", KEYWORD[family], "kube-proxy"])


def normal(text: str) -> str:
    """The text with its elements in order, one a line, and its counters at zero."""
    text = _COUNTS.sub("packets 0 bytes 0", text).rstrip("\n")
    return _ELEMENTS.sub(
        lambda found: "elements = {\n" + "\n".join(sorted(_elements(found[1]))) + " }", text
    )


def _elements(text: str) -> list[str]:
    return [element.strip() for element in text.split(",")]


def blocks(text: str) -> Blocks:
    """The sets and chains of a table, each with its lines and elements in no order.

    Places in lists and numbers depend on what was before: they are left out, and so are pins of
    clients. A list of sources stands where its number was, and so does the chain of a choice.
    """
    found = {"table": frozenset(_TABLE_LINE.findall(text))}
    for head, body in _BLOCK.findall(normal(text)):
        found[head] = frozenset(line.strip(" \t}") for line in body.splitlines())
    return {head: _meant(head, lines, found) for head, lines in found.items()}


def _meant(head: str, lines: frozenset[str], all_: Blocks) -> frozenset[str]:
    """The lines of a block, without what the path decides or packets write."""
    if head in _CHAINS.values():
        return frozenset(line for line in lines if not _CHAIN_OF.match(line)) - {"elements = {"}
    if head in _CHAINS:
        leading = map(_CHAIN_OF.match, all_[_CHAINS[head]])
        chains = {found[1]: found[2] for found in leading if found}
        return frozenset(
            _NUMBER.sub(lambda found: chains.get(found[0].removeprefix(" : "), found[0]), line)
            for line in lines
        )
    if any(" expires " in line for line in lines):
        return frozenset(line for line in lines if " expires " not in line) - {"elements = {"}
    lists = all_.get("set firewall-sources", frozenset())
    if lines is lists:
        return frozenset(line for line in lines if not _IN_LIST.match(line))
    if lines is all_.get("map firewall-services"):
        return frozenset(_NUMBER.sub(partial(_list, lists), line) for line in lines)
    return frozenset(_NUMBER.sub("", _PLACE.sub(" : ", line)) for line in lines)


def _list(lists: frozenset[str], number: re.Match[str]) -> str:
    start = number[0].removeprefix(" : ") + " . "
    return " from " + " ".join(sorted(each for each in lists if each.startswith(start))).replace(
        start, ""
    )


def without_idle_choices(found: Blocks, wanted: Blocks) -> Blocks:
    """The blocks without the chains of choices that are not used."""
    return {h: body for h, body in found.items() if h in wanted or not _CHOICE.match(h)}
