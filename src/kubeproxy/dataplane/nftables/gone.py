"""Endpoints that have left: which ones they are, and their elements.

They are known by what leaves between two states of the entries, and after a restart by what the
lists in the kernel have and no entry has any more. An endpoint that comes back is none.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from struct import Struct

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Protocol, pack
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import Batch, encoded
from kubeproxy.dataplane.nftables.elements import Elements, frontend_key, head, list_head
from kubeproxy.dataplane.nftables.healing import MOST_GONE
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.table.diff import members
from kubeproxy.table.entries import Backend, Entry, FrontendKind, ServicePortName

_PORT = Struct("!H2x")


class Departures(msgspec.Struct):
    """Which pods there are, how many entries have each, and those that have left.

    Pods are known by the heads of their elements. Elements of those that left time out, so that
    some of `gone` may not be in the kernel any more.
    """

    present: Counter[bytes] = msgspec.field(default_factory=Counter)
    gone: set[bytes] = set()


class Departure(msgspec.Struct, frozen=True):
    """What one transaction changes of it."""

    present: Counter[bytes]
    left: tuple[bytes, ...] = ()
    back: tuple[bytes, ...] = ()


def endpoint_head(backend: Backend) -> bytes:
    """The head of the element of an endpoint."""
    return head(pack(backend.address) + _PORT.pack(backend.port))


Pods = Mapping[ServicePortName, tuple[Backend, ...]]


def departure(
    known: Departures, before: Pods, after: Pods, further: Iterable[bytes] = ()
) -> Departure:
    """What changes when the pods of entries become others; `further` are known to have left."""
    change: Counter[bytes] = Counter()
    for name in {**before, **after}:
        lost, joined = members(before.get(name, ()), after.get(name, ()))
        change.update(map(endpoint_head, joined))
        change.subtract(map(endpoint_head, lost))
    changed = {pod: count for pod, count in change.items() if count}
    present = known.present
    left = [pod for pod, n in changed.items() if n < 0 and present[pod] + n <= 0]
    left += [pod for pod in further if present[pod] + change[pod] <= 0]
    back = [pod for pod, n in changed.items() if n > 0 and pod in known.gone]
    room = max(0, MOST_GONE - len(known.gone))
    return Departure(Counter(changed), tuple(left[:room]), tuple(back))


_ANY = {head(bytes([Protocol.TCP])): b""}


def any_gone(known: Departures) -> dict[bytes, bytes]:
    """The element that says whether there is one: while there is none, no packet is looked up."""
    return _ANY if known.gone else {}


def write(
    batch: Batch, known: Departures, change: Departure, before: Mapping[bytes, bytes]
) -> None:
    """Add the elements of those that left, and remove those of pods that are back.

    One that timed out cannot be removed: it is added first. `before` is what the kernel has of
    `any_gone`.
    """
    is_any = change.left or len(known.gone) > len(change.back)
    batch.change(names.GONE_ANY, before, _ANY if is_any else {})
    if change.left or change.back:
        batch.added[names.GONE] = [encoded(pod) for pod in (*change.left, *change.back)]
    if change.back:
        batch.deleted_last[names.GONE] = [encoded(pod) for pod in change.back]


def commit(known: Departures, done: Departure) -> None:
    """The transaction succeeded."""
    for pod, count in done.present.items():
        known.present[pod] += count
        if known.present[pod] <= 0:
            del known.present[pod]
    known.gone.update(done.left)
    known.gone.difference_update(done.back)


def left_meanwhile(entries: Iterable[Entry], kernel: Elements) -> Iterator[bytes]:
    """Endpoints that lists in the kernel have, and that are gone: they left while nobody looked.

    Nothing says of them that they were pods; those of a Service with a selector are.
    """
    for entry in entries:
        if entry.healing & Healing.RESET_GONE and entry.has_selector:
            there = frozenset(map(endpoint_head, (*entry.pods, *entry.cluster, *entry.local)))
            yield from dict.fromkeys(pod for pod in _listed(entry, kernel) if pod not in there)


def _listed(entry: Entry, kernel: Elements) -> Iterator[bytes]:
    for frontend in entry.frontends:
        key = frontend_key(frontend, entry.protocol)
        for local in (False, True):
            name = names.LISTS[frontend.kind is FrontendKind.NODE_PORT, local]
            yield from _endpoints(kernel.get(name, {}), key)


def _endpoints(elements: Mapping[bytes, bytes], key: bytes) -> Iterator[bytes]:
    place = 0
    while (tail := elements.get(list_head(key, place))) is not None:
        data = attributes(attributes(tail)[nft.NFTA_SET_ELEM_DATA])[nft.NFTA_DATA_VALUE]
        yield head(data)
        place += 1


def in_kernel(elements: Collection[bytes]) -> Departures:
    """What the kernel says, before any entry is known."""
    return Departures(gone=set(elements))
