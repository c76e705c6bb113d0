"""One change costs the same in a cluster of any size, and no service has rules of its own."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from kubeproxy.base.inet import Family
from kubeproxy.table.entries import Entry
from lab.entries import exposed, served
from lab.farm import crop
from lab.namespaces import Namespace
from lab.objects import objects
from lab.plane import Plane, plane
from world import Mode, node

FEW, MANY = 10, 2000
MOST_BYTES = 2000
"""For a change of one endpoint of a service with four frontends, in IPv6."""


@pytest.fixture(scope="module")
def namespace(_own_namespaces: None) -> Iterator[Namespace]:
    made = Namespace("cost")
    yield made
    made.close()


def service(number: int, endpoints: Sequence[int], family: Family, **more: object) -> Entry:
    entry = served(number, [crop(each, family) for each in endpoints], family)
    if number <= FEW:
        entry = exposed(entry, number, family)
    return msgspec.structs.replace(entry, **more)


def cluster(count: int, family: Family) -> list[Entry]:
    """Services of three endpoints; one of two and one of four, so that all choices are in use."""
    return [
        service(number, range(_endpoints(number)), family, affinity_seconds=10 * (number % 2))
        for number in range(1, count + 1)
    ]


def _endpoints(number: int) -> int:
    return {2: 2, 3: 2, 4: 4, 5: 4}.get(number, 3)


def cost_of(opened: Plane, endpoints: Sequence[int]) -> int:
    """The bytes of the transactions that give the first service these endpoints."""
    del opened.kernel.sizes[:]
    first, *others = opened.table.entries.values()
    del first
    changed = service(1, endpoints, opened.node.family, affinity_seconds=10)
    report = opened.put([changed, *others])
    assert report.written
    return sum(opened.kernel.sizes)


@pytest.mark.parametrize("family", Family)
def test_a_change_costs_as_much_among_many_as_among_few(
    namespace: Namespace, family: Family
) -> None:
    costs, programs = {}, {}
    for count in (FEW, MANY):
        with plane(namespace, node(Mode.NFTABLES, family)) as opened:
            opened.put(cluster(count, family))
            costs[count] = {
                "replaced": cost_of(opened, (0, 1, 7)),
                "one less": cost_of(opened, (0, 7)),
                "one more": cost_of(opened, (0, 7, 8)),
            }
            found = objects(namespace, family)
            programs[count] = {kind: len(found[kind]) for kind in ("chains", "rules", "sets")}
    print(costs, programs)  # noqa: T201  # shown by -rP
    assert costs[FEW] == costs[MANY]
    assert max(costs[MANY].values()) < MOST_BYTES
    assert programs[FEW] == programs[MANY]
