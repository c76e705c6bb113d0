"""Failures come in, endpoints are left out and tried again; observers are told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import pytest

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.engine.ejection import Limits
from kubeproxy.engine.healer import Healer, entry_of
from kubeproxy.engine.observer import (
    ConnectionsFailed,
    EndpointEjected,
    EndpointTriedAgain,
    Observation,
)
from kubeproxy.table.build import Builder
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKey,
    FrontendKind,
    ServicePortName,
)
from waiting import until

NAME = ServicePortName("shop", "web", "http", Protocol.TCP)
ADMIN = ServicePortName("shop", "web", "admin", Protocol.TCP)
SERVICE = ObjectKey("shop", "web")
VIP = FrontendKey("10.112.0.1", Protocol.TCP, 80)
ENDPOINTS = [Endpoint(f"10.64.0.{number}", 8080) for number in range(4)]


def entry(name: ServicePortName, port: int) -> Entry:
    return Entry(
        name,
        (
            Frontend(FrontendKind.CLUSTER_IP, "10.112.0.1", port),
            Frontend(FrontendKind.NODE_PORT, "", 30000 + port),
        ),
        cluster=tuple(Backend(each.address, each.port) for each in ENDPOINTS),
        healing=Healing.ALL,
    )


def failed(number: int, destination: FrontendKey = VIP) -> list[Failure]:
    """As often as it takes."""
    return [
        Failure(Reason.REFUSED, client, destination, ENDPOINTS[number], 2)
        for client in ("10.64.9.1", "10.64.9.2")
    ]


class Plane:
    """A dataplane that heals; the test says what fails."""

    notify: Callable[[Sequence[Failure]], None]

    async def failures(self, notify: Callable[[Sequence[Failure]], None]) -> None:
        self.notify = notify
        await asyncio.Event().wait()


class Rig:
    def __init__(self, seconds: float) -> None:
        self.plane = Plane()
        self.builder = Builder(Family.IPV4)
        self.builder.table.put(entry(NAME, 80))
        self.builder.table.put(entry(ADMIN, 81))
        self.touched: list[list[ObjectKey]] = []
        self.seen: list[Observation] = []
        limits = Limits(seconds=seconds)
        self.healer = Healer(self.plane, self.builder, limits, self._touch, self.seen.append)

    def _touch(self, services: Iterable[ObjectKey]) -> None:
        self.touched.append(list(services))

    def fail(self, *failures: Failure) -> None:
        self.plane.notify(failures)

    def seen_kinds(self) -> list[type]:
        return [type(each) for each in self.seen]


@pytest.fixture
def seconds() -> float:
    return 60.0


@pytest.fixture
async def rig(seconds: float) -> AsyncIterator[Rig]:
    made = Rig(seconds)
    running = asyncio.create_task(made.healer.run())
    await until(lambda: hasattr(made.plane, "notify"))
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_endpoint_that_fails_is_left_out_of_its_service(rig: Rig) -> None:
    rig.fail(*failed(1))
    assert rig.builder.ejected == {SERVICE: {ENDPOINTS[1]}}
    assert rig.touched == [[SERVICE]]
    (ejection,) = rig.healer.ejections(NAME)
    assert (ejection.endpoint, ejection.failures, ejection.clients) == (ENDPOINTS[1], 4, 2)
    assert rig.healer.count() == {NAME: 1}
    assert rig.seen_kinds() == [ConnectionsFailed, EndpointEjected]


async def test_what_fails_is_told_with_the_service_port_that_was_dialled(rig: Rig) -> None:
    failure = failed(2, VIP._replace(port=81))[0]._replace(times=1)
    rig.fail(failure)
    assert rig.seen == [ConnectionsFailed(Family.IPV4, ((ADMIN, failure),))]
    assert rig.touched == []


async def test_failures_of_what_is_no_service_any_more_are_nobodys(rig: Rig) -> None:
    rig.fail(*failed(1, VIP._replace(port=9)))
    assert rig.seen == [ConnectionsFailed(Family.IPV4, ())]


async def test_ports_of_a_service_have_endpoints_left_out_together(rig: Rig) -> None:
    rig.fail(*failed(1))
    rig.fail(*failed(2, VIP._replace(port=81)))
    assert rig.builder.ejected == {SERVICE: {ENDPOINTS[1], ENDPOINTS[2]}}


@pytest.mark.parametrize("seconds", [0.02])
async def test_an_endpoint_is_tried_again_when_its_time_is_over(rig: Rig) -> None:
    rig.fail(*failed(1))
    await until(lambda: len(rig.touched) == 2)
    assert rig.builder.ejected == {}
    assert not rig.healer.ejections(NAME)
    assert rig.seen_kinds()[-1] is EndpointTriedAgain


@pytest.mark.parametrize("seconds", [0.02])
async def test_one_that_is_over_keeps_no_other_from_ending(rig: Rig) -> None:
    rig.fail(*failed(1))
    rig.fail(*failed(2))
    await until(lambda: not rig.builder.ejected)
    assert rig.seen_kinds().count(EndpointTriedAgain) == 2


async def test_when_too_many_fail_the_rest_stays(rig: Rig) -> None:
    for number in range(3):
        rig.fail(*failed(number))
    assert rig.builder.ejected == {SERVICE: {ENDPOINTS[0], ENDPOINTS[1]}}


def test_a_node_port_is_found_by_its_number() -> None:
    builder = Builder(Family.IPV4)
    builder.table.put(entry(NAME, 80))
    found = entry_of(builder.table, FrontendKey("192.0.2.1", Protocol.TCP, 30080))
    assert found is not None
    assert found.name == NAME
    assert entry_of(builder.table, FrontendKey("192.0.2.1", Protocol.TCP, 80)) is None


@pytest.mark.parametrize("seconds", [1e-6])
async def test_one_whose_time_is_over_before_anybody_looks_is_tried_again(rig: Rig) -> None:
    rig.fail(*failed(1))
    await until(lambda: len(rig.touched) == 2)
    assert rig.builder.ejected == {}
