"""What an update makes of services, and that no step of it is long. Counted, not timed."""

import sys
from collections.abc import Iterator
from types import FrameType

import pytest

import kubeproxy
from kubeproxy.base.inet import Family
from kubeproxy.base.steps import PART, Steps
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import Changes, list_changes
from kubeproxy.table.recompile import LARGE
from world import Document, cluster_of, endpoint_slice, seen_by, service

CART = ObjectKey("shop", "cart")
SOURCES = kubeproxy.__path__[0]
MOST_LINES = 25 * PART
"""Of our code in one step: a few milliseconds."""


class Lines:
    """Counts the lines of our code that each step of some work runs."""

    def __init__(self) -> None:
        self.count = 0

    def of_steps(self, steps: Steps[Changes]) -> Iterator[int]:
        before = sys.gettrace()
        sys.settrace(self._trace)  # type: ignore[arg-type]  # typeshed's type names itself
        try:
            for _ in steps:
                yield self.count
                self.count = 0
            yield self.count
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        self.count += event == "line"
        return self._trace


def ports(count: int) -> list[Document]:
    return [{"name": f"p{number}", "port": number + 1} for number in range(count)]


def addresses(count: int, network: str = "198.18") -> list[str]:
    return [f"{network}.{number >> 8}.{number & 255}" for number in range(count)]


def claiming(port_count: int, external: int) -> list[Document]:
    """Two Services that want the same."""
    spec = {"ports": ports(port_count), "externalIPs": addresses(external)}
    return [
        service({**spec, "clusterIP": "10.112.0.98"}, name="cart"),
        service({**spec, "clusterIP": "10.112.0.99"}, name="zz"),
    ]


def slices(port_count: int, endpoints: int, count: int = 1) -> list[Document]:
    return [
        endpoint_slice(
            spec={
                "ports": ports(port_count),
                "endpoints": [
                    {"addresses": [each]} for each in addresses(endpoints, f"10.{65 + number}")
                ],
            },
            name=f"cart-{number}",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([service({"ports": ports(6000)}), *slices(6000, 2)], id="ports"),
        pytest.param([service({"ports": ports(6000)}), *slices(6000, 60)], id="too-many-ports"),
        pytest.param([service({"ports": ports(6000)})], id="ports-without-endpoints"),
        pytest.param(claiming(80, 80), id="ports-at-addresses-of-another-service"),
        pytest.param(claiming(1, 6000), id="addresses-of-another-service"),
        pytest.param(
            [service({"ports": ports(2)}), *slices(2, 1000, count=6)], id="endpoints-of-ports"
        ),
    ],
)
@pytest.mark.parametrize("large", [LARGE, sys.maxsize])
def test_no_step_is_long(documents: list[Document], large: int) -> None:
    cluster = cluster_of(*documents)
    builder = Builder(Family.IPV4, large)
    for touched in ((), [*cluster.services(Family.IPV4)]):
        steps = builder.update_in_steps(cluster, touched, seen_by(cluster))
        counts = list(Lines().of_steps(steps))
        assert max(counts) < MOST_LINES
        if not touched or large == sys.maxsize:
            assert sum(counts) > MOST_LINES  # there was more to do than one step may
    gone = cluster_of()
    steps = builder.update_in_steps(gone, [*builder.services()], seen_by(cluster))
    assert max(Lines().of_steps(steps)) < MOST_LINES
    assert not builder.table.entries


def test_an_update_that_breaks_off_leaves_the_next_with_the_whole_difference() -> None:
    cluster = cluster_of(service({"ports": ports(1)}), *slices(1, 20))
    builder = Builder(Family.IPV4, large=1)
    builder.update(cluster, [CART], seen_by(cluster))
    (changed,) = slices(1, 21)
    cluster.upsert(Kind.ENDPOINT_SLICE, convert(Kind.ENDPOINT_SLICE, changed))
    steps = builder.update_in_steps(cluster, [CART], seen_by(cluster))
    next(steps)  # the Service has been compiled, and the table has not been changed
    steps.close()
    changes = builder.update(cluster, [CART], seen_by(cluster))
    ((before, after),) = changes.changed
    assert len(after.cluster) == len(before.cluster) + 1
    assert changes.lists.get(after.name) in (None, list_changes(before, after))


def test_a_large_service_whose_endpoint_is_left_out_for_a_while() -> None:
    annotations = {HEALING_ANNOTATION: "all"}
    metadata = {"namespace": CART.namespace, "name": CART.name, "annotations": annotations}
    cluster = cluster_of({**service({"ports": ports(1)}), "metadata": metadata})
    builder = Builder(Family.IPV4, large=1)
    every = addresses(22, "10.65")
    fails = every[3]
    for ejected, count in ((False, 20), (True, 20), (True, 21), (False, 21), (False, 22)):
        (changed,) = slices(1, count)
        cluster.upsert(Kind.ENDPOINT_SLICE, convert(Kind.ENDPOINT_SLICE, changed))
        builder.ejected = {CART: [(fails, 1)]} if ejected else {}
        builder.update(cluster, [CART], seen_by(cluster))
        (entry,) = builder.table.entries.values()
        expected = {*every[:count]} - ({fails} if ejected else set())
        assert expected == {backend.address for backend in entry.cluster}
        assert ejected == bool(entry.ejected)
