"""Entries of the forwarding table -> elements of the program's sets and maps.

An element is named by its set and its `head` (the key, as the kernel dumps it) and has a `tail`
(its data). Two states of the kernel are compared as dictionaries of these.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from struct import Struct

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Prefix, Protocol, pack, pack_all
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.choices import Choice
from kubeproxy.dataplane.nftables.expressions import verdict_data
from kubeproxy.dataplane.nftables.jhash import jhash
from kubeproxy.dataplane.nftables.language import HASH_SEED, RuleVerdict
from kubeproxy.dataplane.nftables.placed import (
    Placed,
    Slots,
    choice_of,
    healed,
    lists,
    lists_of,
    refusal_of,
    remember_of,
    served,
)
from kubeproxy.dataplane.nftables.places import Replaced
from kubeproxy.dataplane.nftables.quirks import QUIRKS
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import attribute, nested, u32
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Refusal

ElementKey = tuple[str, bytes]
Elements = dict[str, dict[bytes, bytes]]
"""Heads and tails, by the name of the set."""

_REFUSALS = {
    (False, Refusal.REJECT): names.SERVICE_REFUSALS,
    (False, Refusal.DROP): names.SERVICE_DROPS,
    (True, Refusal.REJECT): names.NODEPORT_REFUSALS,
    (True, Refusal.DROP): names.NODEPORT_DROPS,
}
"""The sets of frontends without an endpoint: of node ports or not, and what packets get."""

_HEALED = {
    Healing.RETRY_REFUSED: (names.RETRY_REFUSED, names.RETRY_REFUSED),
    Healing.RETRY_UNANSWERED: (names.RETRY_UNANSWERED, names.RETRY_STICKY),
    Healing.RESET_GONE: (names.RESET_GONE, names.RESET_GONE),
}
"""The sets of frontends with a part of healing: without and with session affinity."""

_PROTOCOL_PORT = Struct("!B3xH2x")
_PORT = Struct("!H2x")
_NUMBER = Struct("=I")
_SLOTS = [_NUMBER.pack(names.FIRST_SLOT + index) for index in range(4096)]


# --- keys and data ----------------------------------------------------------------------------


def head(key: bytes) -> bytes:
    """The head of an element with a plain key."""
    return nested(nft.NFTA_SET_ELEM_KEY, attribute(nft.NFTA_DATA_VALUE, key))


def key_in(element: bytes) -> bytes:
    """The key of an element; of a range, its beginning."""
    return attributes(attributes(element)[nft.NFTA_SET_ELEM_KEY])[nft.NFTA_DATA_VALUE]


def tail(data: bytes) -> bytes:
    """The tail of an element of a map."""
    return nested(nft.NFTA_SET_ELEM_DATA, attribute(nft.NFTA_DATA_VALUE, data))


@lru_cache(maxsize=1024)
def number_tail(number: int) -> bytes:
    """The tail of an element of a map of numbers."""
    return tail(_NUMBER.pack(number))


@lru_cache(maxsize=1024)
def verdict_tail(verdict: RuleVerdict) -> bytes:
    """The tail of an element of a verdict map."""
    return nested(nft.NFTA_SET_ELEM_DATA, verdict_data(verdict))


def frontend_key(frontend: Frontend, protocol: Protocol) -> bytes:
    """The destination of a packet, as the program puts its key together."""
    ports = _PROTOCOL_PORT.pack(protocol, frontend.port)
    return pack(frontend.address) + ports if frontend.address else ports


def healed_key(frontend: Frontend) -> bytes:
    """The destination of a connection, where all connections are those of TCP."""
    port = _PORT.pack(frontend.port)
    return pack(frontend.address) + port if frontend.address else port[:2]


def backend_data(backend: Backend) -> bytes:
    """Where a connection is sent to."""
    return pack(backend.address) + _PORT.pack(backend.port)


@lru_cache(maxsize=1 << 16)
def pin_bytes(backend: Backend) -> bytes:
    """What a pin remembers of an endpoint: the program's `endpoint_hash`."""
    hashed = jhash(backend_data(backend), HASH_SEED)
    return _NUMBER.pack(names.PINS_FROM + (hashed * names.PINS_FROM >> 32))


def slot_bytes(index: int) -> bytes:
    """A place in a list, as a number generator draws it."""
    return _SLOTS[index] if index < len(_SLOTS) else _NUMBER.pack(names.FIRST_SLOT + index)


# Lists are long: the bytes before a key and before data of each size are encoded once.
_KEY_PREFIX = {size: head(bytes(size))[:-size] for size in (12, 16, 28)}
_DATA_PREFIX = {size: tail(bytes(size))[:-size] for size in (8, 20)}


def list_head(key: bytes, index: int) -> bytes:
    """The head of an element of a list."""
    return head(key + slot_bytes(index))


def list_heads(key: bytes, count: int) -> list[bytes]:
    """`list_head` of the first elements of a list, faster than one at a time."""
    before = _KEY_PREFIX[len(key) + 4] + key
    slots = islice(_SLOTS, count) if count <= len(_SLOTS) else map(slot_bytes, range(count))
    return [before + slot for slot in slots]


def list_tail(backend: Backend) -> bytes:
    """The tail of an element of a list."""
    return tail(backend_data(backend))


def list_tails(backends: Sequence[Backend]) -> list[bytes]:
    """`list_tail` of all elements of a list, faster than one at a time."""
    addresses = pack_all([backend.address for backend in backends])
    before = _DATA_PREFIX[len(addresses[0]) + 4] if addresses else b""
    pack_port = _PORT.pack
    return [
        before + address + pack_port(backend.port)
        for address, backend in zip(addresses, backends, strict=True)
    ]


# --- the elements of an entry -----------------------------------------------------------------


def entry_elements(placed: Placed, node: NodeView, numbers: Mapping[str, int]) -> Elements:
    """All elements that belong to one entry alone; `numbers` are those of the choices' chains."""
    return _elements(placed, node, numbers, {})


def replaced_elements(
    change: Replaced, nodes: tuple[NodeView, NodeView], numbers: Mapping[str, int]
) -> tuple[Elements, Elements]:
    """The elements of an entry before and after a change, without those of lists in both."""
    places = {False: change.cluster_places, True: change.local_places}
    here_before, here_after = nodes
    in_both = lists(change.before).keys() & lists(change.after).keys()
    if bool(change.before.entry.affinity_seconds) is not bool(change.after.entry.affinity_seconds):
        in_both = set()  # pins begin or end, for all endpoints
    differ = {(frontend, local): places[local] for frontend, local in in_both}
    return (
        _elements(change.before, here_before, numbers, differ),
        _elements(change.after, here_after, numbers, differ),
    )


def _elements(
    placed: Placed,
    node: NodeView,
    numbers: Mapping[str, int],
    differ: Mapping[tuple[Frontend, bool], Sequence[int]],
) -> Elements:
    """The elements of an entry; of the lists in `differ`, those of some places only."""
    found: Elements = defaultdict(dict)
    for frontend in served(placed.entry):
        choice = choice_of(placed, frontend)
        _frontend_elements(placed, frontend, choice, numbers, found)
        for local, slots in lists_of(placed, choice):
            list_ = frontend.kind is FrontendKind.NODE_PORT, local
            key = frontend_key(frontend, placed.entry.protocol)
            places = differ.get((frontend, local))
            found[names.LISTS[list_]].update(_list_elements(key, slots, places))
            if placed.entry.affinity_seconds:
                found[names.PINNED[list_]].update(_pinned_elements(key, slots, places))
    if node.localhost_gate:
        found[names.LOCALHOST_NODEPORTS] = _localhost(placed.entry, node)
    return found


def _frontend_elements(
    placed: Placed,
    frontend: Frontend,
    choice: Choice | None,
    numbers: Mapping[str, int],
    found: Elements,
) -> None:
    entry = placed.entry
    node_port = frontend.kind is FrontendKind.NODE_PORT
    key = frontend_key(frontend, entry.protocol)
    at = head(key)
    counted = names.NODEPORT_CONNECTIONS if node_port else names.SERVICE_CONNECTIONS
    found[counted][at] = b""
    if choice is not None:
        found[names.CHOICES[node_port]][at] = number_tail(numbers[choice.chain])
        remember = remember_of(placed, frontend)
        if remember is not None:
            found[names.NUMBERS[node_port]][at] = number_tail(placed.number)
            found[names.REMEMBERS[node_port]][at] = number_tail(numbers[remember.chain])
    if entry.healing:
        healing = healed(placed, frontend)
        healed_at = head(healed_key(frontend))
        for part, (kind, sticky) in _HEALED.items():
            if healing & part:
                found[(sticky if entry.affinity_seconds else kind)[node_port]][healed_at] = b""
    refusal = refusal_of(placed, frontend)
    if refusal is not None:
        found[_REFUSALS[node_port, refusal]][at] = b""
    if frontend.kind is FrontendKind.LOAD_BALANCER and placed.sources:
        found[names.FIREWALL_IPS][at] = number_tail(placed.sources)


def _list_elements(
    key: bytes, slots: Slots, places: Sequence[int] | None
) -> Iterable[tuple[bytes, bytes]]:
    """The elements of a list: all, or those of some places, as far as it has them."""
    if places is None:
        return zip(list_heads(key, len(slots)), list_tails(slots), strict=True)
    length = len(slots)
    return [(list_head(key, at), list_tail(slots[at])) for at in places if at < length]


def _pinned_elements(
    key: bytes, slots: Slots, places: Sequence[int] | None
) -> Iterable[tuple[bytes, bytes]]:
    """The endpoints of a list by what pins say: all, or those in some places.

    Of two with the same hash a list has one: the clients of the other one come to it, too.
    """
    length = len(slots)
    chosen = slots if places is None else [slots[at] for at in places if at < length]
    return [(head(key + pin_bytes(each)), list_tail(each)) for each in chosen]


def range_head(first: bytes, last: bytes) -> bytes:
    """The head of an element that is a range."""
    return head(first) + nested(nft.NFTA_SET_ELEM_KEY_END, attribute(nft.NFTA_DATA_VALUE, last))


def bounds(prefix: Prefix) -> tuple[bytes, bytes]:
    """The first and the last address of a prefix."""
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


def _localhost(entry: Entry, node: NodeView) -> dict[bytes, bytes]:
    """Node ports that loopback addresses refuse: all but TCP where a proxy serves it."""
    if node.serves_loopback_by_proxy() and entry.protocol is Protocol.TCP:
        return {}
    return {
        head(frontend_key(frontend, entry.protocol)): b""
        for frontend in entry.frontends
        if frontend.kind is FrontendKind.NODE_PORT
    }


# --- elements that several entries may share, and those of the node ---------------------------


def shared_elements(entry: Entry) -> list[ElementKey]:
    """Elements that stay as long as any list of any entry needs them: each as often as it does."""
    hairpins = hairpin_elements(entry.protocol, (*entry.cluster, *entry.local))
    return [*address_elements(entry), *hairpins]


def address_elements(entry: Entry) -> list[ElementKey]:
    """The elements of an entry's cluster IPs."""
    addresses = entry.addresses(FrontendKind.CLUSTER_IP)
    return [(names.CLUSTER_IPS, head(pack(address))) for address in addresses]


def hairpin_elements(protocol: Protocol, backends: Iterable[Backend]) -> list[ElementKey]:
    """The elements of endpoints on this node, whose connections to themselves are masqueraded."""
    found = []
    for backend in backends:
        if backend.local:
            address = pack(backend.address)
            ports = _PROTOCOL_PORT.pack(protocol, backend.port)
            found.append((names.HAIRPINS, head(address + address + ports)))
    return found


def joined_cidrs(node: NodeView) -> list[tuple[bytes, bytes]]:
    """The service ranges, first and last address."""
    return joined(map(bounds, node.service_cidrs))


_IS_END = u32(nft.NFTA_SET_ELEM_FLAGS, nft.NFT_SET_ELEM_INTERVAL_END)


def is_end(bound: bytes) -> bool:
    """Whether an element of a set of ranges is the end of one, not its start."""
    return bound.endswith(_IS_END)


def node_elements(node: NodeView) -> Elements:
    """Elements that depend on this node only."""
    ports = {head(pack(address)): b"" for address in node.node_port_addresses(QUIRKS)}
    cidrs: dict[bytes, bytes] = {}
    for first, last in joined_cidrs(node):
        cidrs[head(first)] = b""
        after = int.from_bytes(last, "big") + 1
        if after < 1 << (8 * len(last)):
            cidrs[head(after.to_bytes(len(last), "big")) + _IS_END] = b""
    return {names.NODEPORT_ADDRESSES: ports, names.SERVICE_CIDRS: cidrs}


# --- elements together ------------------------------------------------------------------------


def without_data(keys: Iterable[ElementKey]) -> Elements:
    """Elements of sets, which have no data."""
    found: Elements = defaultdict(dict)
    for name, at in keys:
        found[name][at] = b""
    return found


def together(parts: Iterable[Elements]) -> Elements:
    """The elements of several parts; of two with the same key, the later one counts."""
    found: Elements = defaultdict(dict)
    for part in parts:
        for name, elements in part.items():
            found[name].update(elements)
    return found
