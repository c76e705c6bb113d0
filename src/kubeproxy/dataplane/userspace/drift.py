"""What a full sync would change: the table in the kernel, and whether the listeners listen.

Which ports the listeners of a running daemon have is not known here, so they are taken from the
table itself: each must have somebody who listens.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.userspace.listeners import SERVED
from kubeproxy.dataplane.userspace.render import wanted
from kubeproxy.dataplane.userspace.rules import KEYWORD, Element, elements
from kubeproxy.dataplane.userspace.settings import TABLE
from kubeproxy.linux import tools
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView

_LISTENING: Final = "listening"
_MERGED: Final = "allowed"
"""Its ranges are merged by the kernel: they are compared as a whole by nobody."""
_STATES: Final = {"tcp": "0A", "udp": "07"}


class Found(NamedTuple):
    """What the kernel's table has: keys of each set, and ports that packets are led to."""

    keys: Mapping[str, frozenset[str]]
    ports: frozenset[tuple[str, int]]


def drift(table: Table, node: NodeView, failed: Collection[ServicePortName]) -> list[Difference]:
    """All differences of a family."""
    listing = _listed(node.family)
    if listing is None:
        name = f"table {KEYWORD[node.family]} {TABLE}"
        return [Difference(Change.ADD, name, reason="it is missing")]
    entries = {name: each for name, each in table.entries.items() if name not in failed}
    owners = {
        (each.set, each.key): str(name)
        for name, entry in entries.items()
        if entry.protocol in SERVED
        for each in elements(entry, node, lambda _: 0)
    }
    return [
        *compared(wanted(entries.values(), node), owners, found_in(listing)),
        *_deaf(found_in(listing).ports, node.family),
    ]


def compared(
    every: Iterable[Element], owners: Mapping[tuple[str, str], str], found: Found
) -> Iterator[Difference]:
    """The elements that are missing, and those that nobody wants."""
    by_set: dict[str, set[str]] = {name: set() for name in found.keys}
    for each in every:
        by_set.setdefault(each.set, set()).add(each.key)
    for name, keys in sorted(by_set.items()):
        if name in {_LISTENING, _MERGED}:
            continue
        there = found.keys.get(name, frozenset())
        for change, some in ((Change.ADD, keys - there), (Change.REMOVE, there - keys)):
            for key in sorted(some):
                owner = owners.get((name, key), "")
                yield Difference(change, f"element {name} {{ {key} }}", owner)


def found_in(listing: str) -> Found:
    """What `nft -j list table` says."""
    keys: dict[str, frozenset[str]] = {}
    ports: set[tuple[str, int]] = set()
    for each in json.loads(listing)["nftables"]:
        named = each.get("map") or each.get("set")
        if named is None or named["name"] == "addresses":
            continue
        found = [_key(element) for element in named.get("elem", ())]
        keys[named["name"]] = frozenset(key for key, _ in found)
        if named["name"] == _LISTENING:
            ports |= {
                (protocol, int(port))
                for key, _ in found
                for protocol, _, port in (key.partition(" . "),)
            }
    return Found(keys, frozenset(ports))


def _key(element: Any) -> tuple[str, object]:
    """The key of an element, as rules write it, and its data."""
    key, data = element if isinstance(element, list) else (element, None)
    return " . ".join(map(str, key["concat"])), data


def _listed(family: Family) -> str | None:
    """The table, as nft lists it; None when there is none."""
    nft = tools.find("nft") or "nft"
    tables = tools.run([nft, "list", "tables", KEYWORD[family]]).split("\n")
    if f"table {KEYWORD[family]} {TABLE}" not in tables:
        return None
    return tools.run([nft, "-j", "list", "table", KEYWORD[family], TABLE])


def _deaf(ports: Iterable[tuple[str, int]], family: Family) -> Iterator[Difference]:
    """The ports on which nobody listens."""
    heard = {protocol: _heard(protocol, family) for protocol in _STATES}
    for protocol, port in sorted(ports):
        if port not in heard[protocol]:
            yield Difference(
                Change.ADD, f"listener {protocol} port {port}", reason="nobody listens"
            )


def _heard(protocol: str, family: Family) -> set[int]:
    """The ports of this network namespace on which somebody listens."""
    suffix = "6" if family is Family.IPV6 else ""
    lines = Path(f"/proc/net/{protocol}{suffix}").read_text(encoding="ascii").splitlines()[1:]
    rows = (line.split() for line in lines)
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _STATES[protocol]}
