"""What one changed endpoint costs, counted and not timed: a machine's mood cannot hide a loop.

From the JSON of the event to the answer of the kernel. Everything is counted in a small cluster
and in a large one, and for a small Service and large ones: cost follows change.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence

import pytest
from bench.clusters import (
    Document,
    Size,
    endpoint_slice,
    objects,
    service_document,
    slice_document,
)

from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.table.compile import compile_service
from lab.changecost import cost_of
from lab.namespaces import Namespace

FEW, MANY = Size(20, 4), Size(2000, 4)

MOST_LINES = 2000
MOST_CALLS = 8
MOST_BYTES = 500


@pytest.fixture
def namespace(_own_namespaces: None) -> Iterator[Namespace]:
    made = Namespace("change-cost")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is two lines more, and on a busy machine there is one now and then."""
    monkeypatch.setattr("kubeproxy.engine.sync._MOST_SECONDS", math.inf)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The services that were compiled as a whole."""
    found: list[object] = []

    def counting(*arguments: object) -> object:
        found.append(arguments[0])
        return compile_service(*arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr("kubeproxy.table.build.compile_service", counting)
    return found


def test_one_change_costs_the_same_work_in_a_cluster_of_any_size(
    namespace: Namespace, compiled: list[object]
) -> None:
    costs = []
    for size in (FEW, MANY):
        first, second = (endpoint_slice(7, size.endpoints, version=version) for version in (1, 2))
        del compiled[:]
        with namespace.entered():
            costs.append(asyncio.run(cost_of(objects(size), first, second)))
        assert len(compiled) == size.services + 2
        namespace.run(["nft", "flush", "ruleset"])
    print(costs)  # noqa: T201  # shown by -rP
    few, many = costs
    assert few == many
    assert many.lines < MOST_LINES
    assert many.calls < MOST_CALLS
    assert many.sent < MOST_BYTES


# --- large services ---------------------------------------------------------------------------

SMALL, LARGE = 30, (1_000, 10_000)
IN_A_SLICE = SMALL
"""Endpoints of every slice: so the changed one costs the same to read for all."""

MOST_TIMES = 1.3

_ZONES, _ALIKE = 3, 300
"""Of serial numbers so far apart, endpoints are in the same zone, and also on the same node."""


def service() -> Document:
    """With session affinity, policy Local and a health-check port."""
    document = service_document(0)
    spec = document["spec"]
    assert isinstance(spec, dict)
    spec |= {
        "type": "LoadBalancer",
        "sessionAffinity": "ClientIP",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 32000,
    }
    spec["ports"][0]["nodePort"] = 30080
    return document | {"status": {"loadBalancer": {"ingress": [{"ip": "11.0.0.1"}]}}}


def hinted_slice(number: int, part: Sequence[int], *, hints: bool) -> bytes:
    document = slice_document(0, number, part)
    endpoints = document["endpoints"]
    assert isinstance(endpoints, list)
    for endpoint in endpoints if hints else ():
        endpoint["hints"] = {"forZones": [{"name": endpoint["zone"]}]}
    return json.dumps(document).encode()


def large_service(endpoints: int, *, hints: bool) -> Iterator[tuple[Kind, bytes]]:
    yield Kind.SERVICE, json.dumps(service()).encode()
    for number, start in enumerate(range(0, endpoints, IN_A_SLICE)):
        part = range(start, min(start + IN_A_SLICE, endpoints))
        yield Kind.ENDPOINT_SLICE, hinted_slice(number, part, hints=hints)


def replaced(version: int, *, hints: bool) -> bytes:
    """The first slice, whose first endpoint, on this node and in its zone, is another one."""
    other = _ALIKE * (20_000 + version)
    return hinted_slice(0, [other, *range(1, IN_A_SLICE)], hints=hints)


def resized(version: int, *, hints: bool) -> bytes:
    """The first slice without an endpoint of this node's zone, and with it again."""
    return hinted_slice(
        0, [each for each in range(IN_A_SLICE) if version % 2 == 0 or each != _ZONES], hints=hints
    )


@pytest.mark.parametrize("hints", [False, True], ids=["no-hints", "hints"])
@pytest.mark.parametrize("change", [replaced, resized])
def test_one_change_costs_nearly_the_same_work_in_a_service_of_any_size(
    namespace: Namespace, compiled: list[object], change: Callable[..., bytes], *, hints: bool
) -> None:
    costs = []
    for endpoints in (SMALL, *LARGE):
        first, second = (change(version, hints=hints) for version in (1, 2))
        del compiled[:]
        with namespace.entered():
            costs.append(
                asyncio.run(cost_of(large_service(endpoints, hints=hints), first, second))
            )
        assert len(compiled) == (1 if endpoints in LARGE else 3)
        namespace.run(["nft", "flush", "ruleset"])
    print(costs)  # noqa: T201  # shown by -rP
    small, *large = costs
    for each in large:
        assert each.lines <= MOST_TIMES * small.lines
        assert (each.calls, each.sent) == (small.calls, small.sent)
