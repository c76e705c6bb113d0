"""Entries of the forwarding table -> elements of the program's sets and maps.

An element is named by its set and its `head` (the key, as the kernel dumps it) and has a `tail`
(its data). Two states of the kernel are compared as dictionaries of these.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from struct import Struct

import msgspec

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.choices import (
    Choice,
    External,
    Pick,
    Remember,
    Split,
)
from kubeproxy.dataplane.nftables.expressions import verdict_data
from kubeproxy.dataplane.nftables.language import DROP, Verdict, goto
from kubeproxy.dataplane.nftables.slots import Slots
from kubeproxy.inet import Prefix, Protocol, pack, pack_all
from kubeproxy.netlink.attribute import attribute, nested, u32
from kubeproxy.table.entries import PRECEDENCE, Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.node import Mode, Node

ElementKey = tuple[str, bytes]
Elements = dict[str, dict[bytes, bytes]]
"""Heads and tails, by the name of the set."""

NFTA_SET_ELEM_KEY = 1
NFTA_SET_ELEM_DATA = 2
NFTA_SET_ELEM_FLAGS = 3
NFTA_SET_ELEM_KEY_END = 10
INTERVAL_END = 1

_PROTOCOL_PORT = Struct("!B3xH2x")
_PORT = Struct("!H2x")
_NUMBER = Struct("=I")
_INDEX = [_NUMBER.pack(index) for index in range(4096)]


class Placed(msgspec.Struct, frozen=True):
    """An entry, where its backends stand, and its number if it keeps its clients."""

    entry: Entry
    cluster: Slots
    local: Slots
    number: int = 0


# --- keys and data ----------------------------------------------------------------------------


def head(key: bytes) -> bytes:
    """The head of an element with a plain key."""
    return nested(NFTA_SET_ELEM_KEY, attribute(1, key))


def tail(data: bytes) -> bytes:
    """The tail of an element of a map."""
    return nested(NFTA_SET_ELEM_DATA, attribute(1, data))


@lru_cache(maxsize=1024)
def verdict_tail(verdict: Verdict) -> bytes:
    """The tail of an element of a verdict map."""
    return nested(NFTA_SET_ELEM_DATA, verdict_data(verdict))


def frontend_key(frontend: Frontend, protocol: Protocol) -> bytes:
    """The destination of a packet, as the program puts its key together."""
    ports = _PROTOCOL_PORT.pack(protocol, frontend.port)
    return pack(frontend.address) + ports if frontend.address else ports


def backend_data(backend: Backend) -> bytes:
    """Where a connection is sent to."""
    return pack(backend.address) + _PORT.pack(backend.port)


def index_bytes(index: int) -> bytes:
    """A place in a list, as a number generator draws it."""
    return _INDEX[index] if index < len(_INDEX) else _NUMBER.pack(index)


# Lists are long: what stands before a key and before data of a size is made once.
_KEY_PREFIX = {size: head(bytes(size))[:-size] for size in (12, 16, 28)}
_DATA_PREFIX = {size: tail(bytes(size))[:-size] for size in (8, 20)}


def list_head(key: bytes, index: int) -> bytes:
    """The head of an element of a list."""
    return head(key + index_bytes(index))


def list_heads(key: bytes, count: int) -> list[bytes]:
    """`list_head` of the first elements of a list, which is quicker than one at a time."""
    before = _KEY_PREFIX[len(key) + 4] + key
    places = islice(_INDEX, count) if count <= len(_INDEX) else map(index_bytes, range(count))
    return [before + place for place in places]


def list_tail(backend: Backend) -> bytes:
    """The tail of an element of a list."""
    return tail(backend_data(backend))


def list_tails(backends: Sequence[Backend]) -> list[bytes]:
    """`list_tail` of all elements of a list, which is quicker than one at a time."""
    addresses = pack_all([backend.address for backend in backends])
    before = _DATA_PREFIX[len(addresses[0]) + 4] if addresses else b""
    pack_port = _PORT.pack
    return [
        before + address + pack_port(backend.port)
        for address, backend in zip(addresses, backends, strict=True)
    ]


# --- choices ----------------------------------------------------------------------------------


def choice_of(placed: Placed, frontend: Frontend) -> Choice | None:
    """How a frontend chooses; None when there is nobody for anybody."""
    entry = placed.entry
    node_port = frontend.kind is FrontendKind.NODE_PORT
    sticky = entry.affinity_seconds > 0
    everywhere = Pick(node_port, False, len(entry.cluster), sticky, entry.balance)
    here = Pick(node_port, True, len(entry.local), sticky, entry.balance)
    if frontend.kind is FrontendKind.CLUSTER_IP:
        pick = here if entry.internal_local else everywhere
        return pick if pick.count else None
    if not entry.cluster:
        return None
    if not entry.external_local:
        return External(everywhere)
    return Split(everywhere, here if here.count else None)


def nobody_of(placed: Placed, frontend: Frontend) -> Verdict | None:
    """What happens to those for whom there is nobody; None when there is somebody for all."""
    entry = placed.entry
    local = entry.external_local if frontend.kind.external else entry.internal_local
    if entry.local if local else entry.cluster:
        return None
    return DROP if entry.any else goto(names.REJECT_CHAIN)


def remember_of(placed: Placed, frontend: Frontend) -> Remember | None:
    """How the choice is remembered; None without affinity."""
    entry = placed.entry
    if not entry.affinity_seconds:
        return None
    node_port = frontend.kind is FrontendKind.NODE_PORT
    local: bool | None = entry.internal_local
    if frontend.kind.external:
        local = None if entry.external_local else False
    return Remember(node_port, local, entry.affinity_seconds)


def served(entry: Entry) -> Iterable[Frontend]:
    """The frontends, one for each destination: the strictest, as `Entry.find` has it."""
    found: dict[tuple[str, int], Frontend] = {}
    for frontend in sorted(entry.frontends, key=lambda each: PRECEDENCE[each.kind]):
        found.setdefault((frontend.address, frontend.port), frontend)
    return found.values()


def choices(placed: Placed) -> Iterator[Choice]:
    """The choices that an entry's frontends lead to."""
    for frontend in served(placed.entry):
        choice = choice_of(placed, frontend)
        if choice is not None:
            yield choice
            remember = remember_of(placed, frontend)
            if remember is not None:
                yield remember


# --- the elements of an entry -----------------------------------------------------------------


def entry_elements(placed: Placed, node: Node) -> Elements:
    """All elements that belong to one entry alone."""
    found: Elements = defaultdict(dict)
    for frontend in served(placed.entry):
        _frontend_elements(placed, frontend, found)
    if node.localhost_gate:
        found[names.LOCALHOST_NODEPORTS] = _localhost(placed.entry, node)
    return found


def _frontend_elements(placed: Placed, frontend: Frontend, found: Elements) -> None:
    entry = placed.entry
    node_port = frontend.kind is FrontendKind.NODE_PORT
    key = frontend_key(frontend, entry.protocol)
    at = head(key)
    choice = choice_of(placed, frontend)
    counted = names.NODEPORT_CONNECTIONS if node_port else names.SERVICE_CONNECTIONS
    found[counted][at] = b""
    if choice is not None:
        chosen = names.SERVICE_NODEPORTS if node_port else names.SERVICE_IPS
        found[chosen][at] = verdict_tail(goto(choice.chain))
        _lists(placed, choice, key, found)
        remember = remember_of(placed, frontend)
        if remember is not None:
            numbers = names.NODEPORT_AFFINITY if node_port else names.SERVICE_AFFINITY
            found[numbers][at] = tail(_NUMBER.pack(placed.number))
            memory = names.REMEMBER_NODEPORTS if node_port else names.REMEMBER_SERVICES
            found[memory][at] = verdict_tail(goto(remember.chain))
    nobody = nobody_of(placed, frontend)
    if nobody is not None:
        none = names.NO_ENDPOINT_NODEPORTS if node_port else names.NO_ENDPOINT_SERVICES
        found[none][at] = verdict_tail(nobody)
    if frontend.kind is FrontendKind.LOAD_BALANCER and entry.source_ranges is not None:
        found[names.FIREWALL_IPS][at] = b""
        for first, last in allowed_sources(entry):
            found[names.FIREWALL_ALLOW][_range_head(key + first, key + last)] = b""


def _lists(placed: Placed, choice: Choice, key: bytes, found: Elements) -> None:
    """The elements of the lists that a choice draws from."""
    for pick, slots in lists_of(placed, choice):
        name = list_name(node_port=pick.node_port, local=pick.local)
        found[name].update(zip(list_heads(key, len(slots)), list_tails(slots), strict=True))


def lists_of(placed: Placed, choice: Choice) -> list[tuple[Pick, Slots]]:
    """The lists that a choice draws from."""
    match choice:
        case Pick():
            return [(choice, placed.local if choice.local else placed.cluster)]
        case External(pick):
            return [(pick, placed.cluster)]
        case Split(everywhere, here):
            local = [(here, placed.local)] if here else []
            return [(everywhere, placed.cluster), *local]
        case Remember():  # pragma: no cover  # never leads to a list
            return []


def list_name(*, node_port: bool, local: bool) -> str:
    """The map with the lists of a kind."""
    return {
        (False, False): names.SERVICE_ENDPOINTS,
        (False, True): names.SERVICE_LOCAL_ENDPOINTS,
        (True, False): names.NODEPORT_ENDPOINTS,
        (True, True): names.NODEPORT_LOCAL_ENDPOINTS,
    }[node_port, local]


def _range_head(first: bytes, last: bytes) -> bytes:
    start = nested(NFTA_SET_ELEM_KEY, attribute(1, first))
    return start + nested(NFTA_SET_ELEM_KEY_END, attribute(1, last))


def allowed_sources(entry: Entry) -> list[tuple[bytes, bytes]]:
    """The source ranges, first and last address, with those that overlap or touch joined."""
    ranges = [_bounds(prefix) for prefix in entry.source_ranges or ()]
    if entry.own_vips:
        vips = entry.addresses(FrontendKind.LOAD_BALANCER)
        ranges += [(pack(vip), pack(vip)) for vip in vips]
    return joined(ranges)


def _bounds(prefix: Prefix) -> tuple[bytes, bytes]:
    first = pack(prefix.address)
    hosts = (1 << (8 * len(first) - prefix.length)) - 1
    last = int.from_bytes(first, "big") | hosts
    return first, last.to_bytes(len(first), "big")


def joined(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Ranges in order, without overlaps."""
    found: list[tuple[bytes, bytes]] = []
    for first, last in sorted(ranges):
        if found and int.from_bytes(first, "big") <= int.from_bytes(found[-1][1], "big") + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _localhost(entry: Entry, node: Node) -> dict[bytes, bytes]:
    """Node ports that loopback addresses refuse: all but TCP where a proxy serves it."""
    if node.serves_loopback_by_proxy() and entry.protocol is Protocol.TCP:
        return {}
    return {
        head(frontend_key(frontend, entry.protocol)): b""
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.NODE_PORT
    }


# --- elements that several entries may share, and those of the node ---------------------------


def shared_elements(entry: Entry) -> set[ElementKey]:
    """Elements that stay as long as one entry wants them."""
    found = {
        (names.CLUSTER_IPS, head(pack(address)))
        for address in entry.addresses(FrontendKind.CLUSTER_IP)
    }
    for backend in (*entry.cluster, *entry.local):
        if backend.local:
            address = pack(backend.address)
            ports = _PROTOCOL_PORT.pack(entry.protocol, backend.port)
            found.add((names.HAIRPIN, head(address + address + ports)))
    return found


def joined_cidrs(node: Node) -> list[tuple[bytes, bytes]]:
    """The service ranges, first and last address."""
    return joined(map(_bounds, node.service_cidrs))


def node_elements(node: Node) -> Elements:
    """Elements that depend on this node alone."""
    ports = {head(pack(address)): b"" for address in node.node_port_addresses(Mode.NFTABLES)}
    cidrs: dict[bytes, bytes] = {}
    for first, last in joined_cidrs(node):
        cidrs[head(first)] = b""
        after = int.from_bytes(last, "big") + 1
        if after < 1 << (8 * len(last)):
            end = head(after.to_bytes(len(last), "big")) + u32(NFTA_SET_ELEM_FLAGS, INTERVAL_END)
            cidrs[end] = b""
    return {names.NODEPORT_IPS: ports, names.SERVICE_CIDRS: cidrs}


# --- elements together ------------------------------------------------------------------------


def without_data(keys: Iterable[ElementKey]) -> Elements:
    """Elements that are no more than there."""
    found: Elements = defaultdict(dict)
    for name, at in keys:
        found[name][at] = b""
    return found


def together(parts: Iterable[Elements]) -> Elements:
    """The elements of several parts; where two have the same one, the later counts."""
    found: Elements = defaultdict(dict)
    for part in parts:
        for name, elements in part.items():
            found[name].update(elements)
    return found
