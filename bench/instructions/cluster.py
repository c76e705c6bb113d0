"""A cluster of services with 2 to 5 endpoints each, and the kinds of changes of it.

Each kind is one event of a watch, or the two that come together when a Service is created or
deleted. The number of a change chooses the service: no two change the same.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from bench.clusters import Size, service, service_document, slice_document
from bench.compiled import THIS_NODE, Compiled
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import Update

ROUNDS = 7
"""So often a change is made."""
RANGES = 1000
_COUNTS = (2, 3, 4, 5)
_SERIALS = 8
"""A service has so many serial numbers of its own."""
_NEW, _NEWER = 1 << 22, 3 << 21
"""The first serial numbers of services with uncommon counts, and of endpoints that come later."""
_FEW, _MORE, _MOST = 1, 2, 3
"""Places in `_COUNTS` of services with 3, 4 and 5 endpoints."""
_UNCOMMON = 30
"""Counts from here on are those of two services each, with gaps between them."""


def common(index: int) -> Sequence[int]:
    """The endpoints with which a service begins."""
    first = index * _SERIALS
    return range(first, first + _COUNTS[index % len(_COUNTS)])


def ranges(version: int) -> list[str]:
    """1,000 source ranges, none beside another; each version has another first one."""
    return [f"20.{n >> 7}.{n % 128 * 2}.0/24" for n in (RANGES + version, *range(1, RANGES))]


def _uncommon_serials(number: int) -> Sequence[int]:
    """The endpoints of the services with uncommon counts; two and two have the same count."""
    first = _NEW + (number << 8)
    return range(first, first + _UNCOMMON + number // 2 * 2)


class Changing(Compiled):
    """The cluster, compiled, and its changes."""

    def __init__(self, services: int) -> None:
        self._services = services
        self._next = _NEWER
        self._first_uncommon = services
        self._guarded = services + 2 * ROUNDS
        self._first_new = self._guarded + 1
        super().__init__(Size(services, _COUNTS[-1]), self._listed())

    def _listed(self) -> Iterator[tuple[Kind, bytes]]:
        for index in range(self._services):
            yield from _objects(index, common(index))
        for number in range(2 * ROUNDS):
            yield from _objects(self._first_uncommon + number, _uncommon_serials(number))
        yield Kind.SERVICE, msgspec.json.encode(self._guarded_document(0))
        yield _slice(self._guarded, self._fresh(4))

    def _fresh(self, count: int) -> Sequence[int]:
        self._next += count
        return range(self._next - count, self._next)

    def _guarded_document(self, version: int) -> dict[str, object]:
        document = service_document(self._guarded)
        spec = document["spec"]
        assert isinstance(spec, dict)
        spec |= {"type": "LoadBalancer", "loadBalancerSourceRanges": ranges(version)}
        return {**document, "status": {"loadBalancer": {"ingress": [{"ip": "11.0.0.1"}]}}}

    def update(self, *events: tuple[Kind, bytes]) -> Update:
        """A sync of what these events change."""
        touched = {
            key
            for kind, data in events
            for _, key in self.cluster.upsert(kind, decode(kind, data)).services
        }
        return self._compiled(touched)

    def _compiled(self, touched: set[ObjectKey]) -> Update:
        return Update(self.builder.table, THIS_NODE, self.compile(touched), full=False)

    def replaced(self, number: int) -> Update:
        """A service gets another endpoint in place of its first."""
        index = _pick(number, _MORE)
        return self.update(_slice(index, [*self._fresh(1), *common(index)[1:]]))

    def more(self, number: int) -> Update:
        """From three endpoints to four, which others have too."""
        index = _pick(number, _FEW)
        return self.update(_slice(index, [*common(index), *self._fresh(1)]))

    def less(self, number: int) -> Update:
        """From five endpoints to four."""
        index = _pick(number, _MOST)
        return self.update(_slice(index, common(index)[:-1]))

    def uncommon(self, number: int) -> Update:
        """One endpoint more, and no other service has that many; the old count stays in use."""
        index = self._first_uncommon + 2 * number
        return self.update(_slice(index, [*_uncommon_serials(2 * number), *self._fresh(1)]))

    def added(self, number: int) -> Update:
        """A Service with four endpoints."""
        return self.update(*_objects(self._first_new + number, self._fresh(4)))

    def removed(self, number: int) -> Update:
        """That Service goes."""
        name = f"service-{self._first_new + number}"
        touched = [
            *self.cluster.delete(Kind.SERVICE, ObjectKey("default", name)).services,
            *self.cluster.delete(
                Kind.ENDPOINT_SLICE, ObjectKey("default", f"{name}-abcd0")
            ).services,
        ]
        return self._compiled({key for _, key in touched})

    def source_range(self, number: int) -> Update:
        """One of the 1,000 ranges from which a load balancer may be used is another one."""
        document = self._guarded_document(number + 1)
        return self.update((Kind.SERVICE, msgspec.json.encode(document)))


def _pick(number: int, place: int) -> int:
    """A service with the count of that place."""
    return len(_COUNTS) * number + place


def _objects(index: int, serials: Sequence[int]) -> Iterator[tuple[Kind, bytes]]:
    yield Kind.SERVICE, service(index)
    yield _slice(index, serials)


def _slice(index: int, serials: Sequence[int]) -> tuple[Kind, bytes]:
    return Kind.ENDPOINT_SLICE, msgspec.json.encode(slice_document(index, 0, serials))


class Change(msgspec.Struct, frozen=True):
    """A kind of change, and how often it is made."""

    what: str
    make: Callable[[Changing, int], Update]
    rounds: int = ROUNDS


CHANGES = (
    Change("an endpoint replaced", Changing.replaced),
    Change("one endpoint more", Changing.more),
    Change("one endpoint less", Changing.less),
    Change("first use of an endpoint count", Changing.uncommon),
    Change("a Service added", Changing.added),
    Change("a Service removed", Changing.removed),
    Change(f"one of {RANGES:,} source ranges replaced", Changing.source_range, 3),
)
"""What is measured, in this order."""
