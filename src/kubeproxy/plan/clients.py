"""Who sends the probe packets: pods, the node itself, clients outside, and those at boundaries.

A class of clients has one representative, but where source ranges tell clients apart: then there
is one on either side of every boundary, so that no client is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kubeproxy.base.inet import Prefix, contains, pack, unpack
from kubeproxy.explain.question import OUTSIDE
from kubeproxy.table.entries import Backend, Entry
from kubeproxy.table.node import NodeView, PodCIDR, PodInterface

PODS: Final = "pods"
HOST: Final = "this node"
OUTSIDERS: Final = "outside"
_TRIES: Final = 256


class Client(msgspec.Struct, frozen=True):
    """A sender. `own` says that it is the node itself, which uses whatever address fits."""

    name: str
    address: str
    interface: str = ""
    own: bool = False


def usual_clients(nodes: Sequence[NodeView], avoid: frozenset[str]) -> list[Client]:
    """One of each class, as the nodes of both sides see it; none has an address of `avoid`."""
    found = [client for node in nodes for client in _pods(node, avoid)]
    found += [Client(HOST, address, own=True) for address in _host(nodes[-1])]
    prefixes = [node.detector.prefix for node in nodes if isinstance(node.detector, PodCIDR)]
    outside = _outside(nodes[-1], prefixes, avoid)
    return list(dict.fromkeys([*found, Client(OUTSIDERS, outside)]))


def clients_at_boundaries(entries: Iterable[Entry], nodes: Sequence[NodeView]) -> list[Client]:
    """A client on either side of every boundary of the entries' source ranges."""
    ranges = dict.fromkeys(range_ for entry in entries for range_ in entry.source_ranges or ())
    if not ranges:
        return []
    pods = [node.detector.prefix for node in nodes if isinstance(node.detector, PodCIDR)]
    found: dict[str, Client] = {}
    for address in _boundaries([*ranges, *pods]):
        if not any(node.is_own(address) for node in nodes):
            name = _named(address, list(ranges), pods)
            found.setdefault(name, Client(name, address))
    return list(found.values())


def endpoints_themselves(
    entries: Sequence[Entry], placeless: frozenset[str], *, same_rules: bool
) -> list[Client]:
    """Endpoints that may meet themselves, where the two sides may know them in different ways."""
    lists = [frozenset((*entry.cluster, *entry.local)) for entry in entries]
    moved = {each.address for each in lists[0] ^ lists[-1] if _other(each) in lists[0] | lists[-1]}
    if not same_rules:
        moved |= {each.address for each in lists[-1] if each.address in placeless}
    return [Client(f"endpoint {address} itself", address) for address in sorted(moved)]


def _other(backend: Backend) -> Backend:
    """The same endpoint, but on this node, or not."""
    return Backend(backend.address, backend.port, not backend.local)


def _pods(node: NodeView, avoid: frozenset[str]) -> Iterator[Client]:
    detector = node.detector
    if isinstance(detector, PodCIDR):
        last = _last(detector.prefix)
        below = (_moved(last, -number) for number in range(_TRIES))
        free = (a for a in below if contains(detector.prefix, a) and not node.is_own(a))
        yield Client(PODS, next((a for a in free if a not in avoid), last))
    elif isinstance(detector, PodInterface):
        name = f"{detector.name}0" if detector.prefix else detector.name
        yield Client(PODS, _outside(node, (), avoid), name)


def _host(node: NodeView) -> Iterator[str]:
    usable = [a for a in node.addresses if not node.is_loopback(a) and not a.startswith("fe80:")]
    chosen = node.ip if node.ip in usable else next(iter(usable), None)
    if chosen is not None:
        yield chosen


def _outside(node: NodeView, pods: Sequence[Prefix], avoid: frozenset[str]) -> str:
    """A client that is neither a pod nor this node."""
    start = OUTSIDE[node.family]
    tries = (_moved(start, number) for number in range(_TRIES))
    free = (a for a in tries if a not in avoid and not node.is_own(a))
    return next((a for a in free if not any(contains(each, a) for each in pods)), start)


def _boundaries(prefixes: Iterable[Prefix]) -> Iterator[str]:
    """An address of every range that no boundary divides."""
    for prefix in prefixes:
        yield OUTSIDE[prefix.family]
        yield prefix.address
        yield _moved(_last(prefix), 1)


def _named(address: str, ranges: Sequence[Prefix], pods: Sequence[Prefix]) -> str:
    """What clients of an address have in common."""
    who = PODS if any(contains(each, address) for each in pods) else OUTSIDERS
    within = [each for each in ranges if contains(each, address)]
    if not within:
        return f"{who} (in no source range)"
    return f"{who} (in {max(within, key=lambda each: each.length)})"


def _last(prefix: Prefix) -> str:
    packed = pack(prefix.address)
    host = (1 << (8 * len(packed) - prefix.length)) - 1
    return _address(int.from_bytes(packed, "big") | host, len(packed))


def _moved(address: str, by: int) -> str:
    packed = pack(address)
    bits = 8 * len(packed)
    return _address((int.from_bytes(packed, "big") + by) % (1 << bits), len(packed))


def _address(number: int, length: int) -> str:
    return unpack(number.to_bytes(length, "big"))
