"""The rules in the kernel, as the distribution's nft lists them. Only for showing and checking."""

import json
import re
from collections.abc import Mapping, Sequence

import msgspec

from demo.cluster import Frontend
from lab.namespaces import Namespace

TABLE = ("ip", "kube-proxy")
_ENDPOINTS = {
    f"{frontends}-{which}endpoints"
    for frontends in ("service", "nodeport")
    for which in ("", "local-")
}
_LEARNED = {"affinity", "local-affinity"}
"""Maps that packets fill: no part of what the proxy wrote."""


class _Chain(msgspec.Struct, frozen=True):
    name: str


class _Rule(msgspec.Struct, frozen=True):
    chain: str
    expr: object


class _Set(msgspec.Struct, frozen=True):
    name: str
    elem: tuple[object, ...] = ()


class _Object(msgspec.Struct, frozen=True):
    chain: _Chain | None = None
    rule: _Rule | None = None
    set: _Set | None = None
    map: _Set | None = None


class _Listing(msgspec.Struct, frozen=True):
    nftables: tuple[_Object, ...]


class _Counter(msgspec.Struct, frozen=True):
    packets: int


class _Value(msgspec.Struct, frozen=True):
    concat: tuple[str | int, ...]


class _Element(msgspec.Struct, frozen=True):
    val: _Value
    counter: _Counter


class _Counting(msgspec.Struct, frozen=True):
    elem: _Element


class Ruleset(msgspec.Struct, frozen=True):
    """The proxy's IPv4 table. Two that are equal do the same."""

    rules: Mapping[str, tuple[str, ...]]
    """The rules of each chain, in order."""
    elements: Mapping[str, frozenset[str]]
    """The elements of each set and map."""

    def size(self) -> tuple[int, int, int]:
        """How many chains, rules and elements there are."""
        return (
            len(self.rules),
            sum(map(len, self.rules.values())),
            sum(map(len, self.elements.values())),
        )


def read(node: Namespace) -> Ruleset:
    """The rules as they are now."""
    objects = _list(node, "table", *TABLE)
    rules: dict[str, tuple[str, ...]] = {each.chain.name: () for each in objects if each.chain}
    for rule in (each.rule for each in objects if each.rule):
        rules[rule.chain] += (json.dumps(rule.expr),)
    sets = [found for each in objects for found in (each.set, each.map) if found]
    elements = {each.name: frozenset(_plain(each.name, e) for e in each.elem) for each in sets}
    return Ruleset(rules, {name: elements[name] for name in elements.keys() - _LEARNED})


def counters(node: Namespace, frontends: Sequence[Frontend]) -> dict[Frontend, int]:
    """How many connections the kernel counted for each frontend that it knows."""
    counted: dict[tuple[str | int, ...], int] = {}
    for name in ("service-connections", "nodeport-connections"):
        for found in (each.set for each in _list(node, "set", *TABLE, name) if each.set):
            for each in msgspec.convert(found.elem, tuple[_Counting, ...]):
                counted[each.elem.val.concat] = each.elem.counter.packets
    return {each: counted[_key(each)] for each in frontends if _key(each) in counted}


def leads(node: Namespace, frontend: Frontend, address: str) -> bool:
    """Whether connections to a service's address may be sent to an endpoint."""
    elements = read(node).elements["service-endpoints"]
    return any(frontend.address in each and f'"{address}"' in each for each in elements)


def remembered(node: Namespace) -> int:
    """How many clients the kernel remembers, for session affinity."""
    return sum(len(each.map.elem) for each in _list(node, "map", *TABLE, "affinity") if each.map)


def excerpt(node: Namespace, kind: str, name: str, about: str = "") -> str:
    """The text of one map or chain; of a map's elements only those about something."""
    lines = node.run(["nft", "list", kind, *TABLE, name]).expandtabs(4).splitlines()[1:-1]
    text = "\n".join(line[4:] for line in lines if "comment" not in line)
    found = re.search(r"elements = \{(.*?)\}", text, re.DOTALL)
    if found is None:
        return text
    elements = [each.strip() for each in found[1].split(",")]
    shown = [each for each in elements if about in each]
    if len(shown) < len(elements):
        shown.append(f"... and {len(elements) - len(shown)} more")
    listed = ",\n                 ".join(shown)
    return text.replace(found[0], f"elements = {{ {listed} }}")


def _key(frontend: Frontend) -> tuple[str | int, ...]:
    """A frontend as the counting sets name it."""
    port = (frontend.protocol.name.lower(), frontend.port)
    return port if frontend.kind == "node port" else (frontend.address, *port)


def _plain(name: str, element: object) -> str:
    """An element without what it counted, and without the slot in which an endpoint is."""
    if isinstance(element, dict) and "elem" in element:
        return json.dumps(element["elem"]["val"])
    if isinstance(element, list) and name in _ENDPOINTS:
        key, endpoint = element
        return json.dumps([key["concat"][:-1], endpoint])
    return json.dumps(element)


def _list(node: Namespace, *what: str) -> tuple[_Object, ...]:
    return msgspec.json.decode(node.run(["nft", "-j", "list", *what]), type=_Listing).nftables
